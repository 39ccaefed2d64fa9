/*
 * audit/erasure_priv.h -- the statements behind audit/erasure.h, and what the verifier of the log asks about erasures.
 */
#pragma once

#include "audit/erasure.h"
#include "audit/query_priv.h"
#include "audit/search_store_priv.h"

/** Whether the log has the event that began the erasure of this person: then its sealed parts are gone on purpose. */
RESULT erasure_is_recorded(struct pg *pg, const char *pseudonym, bool *is_recorded_out, struct error *err);

/** Selects the events of the person, and not the exports that auditors made of them. The text must live as long. `limit` is 0. */
struct audit_selection erasure_own_events(const char *pseudonym);

RESULT erasure_select_row(struct pg *pg, const char *pseudonym, struct erasure_row *row_out, struct error *err);
/** One row with the leaf of the event that began the erasure, or none. */
RESULT erasure_select_event(struct pg *pg, const char *pseudonym, struct pg_rows **rows_out, struct error *err);
RESULT erasure_select_blind(struct pg *pg, uint64_t witness, int64_t *count_out, struct error *err);
/** A row that names a person without events: of a role, or of SCIM. */
struct erasure_named {
    char issuer[ERASURE_NAME_SIZE];
    struct uuid binding; /* the role; not used if there is a `person` */
    int64_t person;      /* of SCIM; 0: the role */
    uint8_t index[32];   /* of the row of the key */
};
bool erasure_is_pseudonym(const char *text);
/** The first role of {issuer, subject}, live or ended; or the person of SCIM with this externalId. *named_out is written only if there is one. */
RESULT erasure_select_role(struct pg *pg, const char *const names[2], struct erasure_named *named_out, bool *is_found_out,
                           struct error *err);
RESULT erasure_insert_named(struct pg *pg, const char *pseudonym, const struct erasure_named *named, struct error *err);
/** The person that such a row names, without an event, and the row of its key; nobody has checked them. ERROR_NOT_FOUND. */
RESULT erasure_select_named(struct pg *pg, const char *pseudonym, struct erasure_person *person_out, uint8_t index_out[32],
                            struct error *err);
/** The same, checked: the key of this row makes this pseudonym of the names. ERROR_CORRUPT: it does not. */
RESULT erasure_named_find(const struct search_source *source, const char *pseudonym, struct erasure_person *person_out,
                          struct error *err);
RESULT erasure_delete_named_key(struct pg *pg, const struct erasure_begin *begin, uint64_t begun, struct error *err);
RESULT erasure_delete_blind(struct pg *pg, const struct erasure_person *person, uint64_t begun, int64_t *gone_out,
                            struct error *err);
RESULT erasure_delete_key(struct pg *pg, const struct erasure_begin *begin, uint64_t begun, struct error *err);
RESULT erasure_rename_roles(struct pg *pg, const struct erasure_person *person, struct error *err);
RESULT erasure_delete_payloads(struct pg *pg, const char *pseudonym, const int64_t *numbers, size_t count, struct error *err);
/** ERROR_CONFLICT: it has ended already. */
RESULT erasure_close(struct pg *pg, const char *pseudonym, uint64_t ended, struct error *err);
