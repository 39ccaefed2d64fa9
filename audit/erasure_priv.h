/*
 * audit/erasure_priv.h -- the statements behind audit/erasure.h, and what the verifier of the log asks about erasures.
 */
#pragma once

#include "audit/erasure.h"
#include "audit/search_store_priv.h"

/** Whether the log has the event that began the erasure of this person: then its sealed parts are gone on purpose. */
RESULT erasure_is_recorded(struct pg *pg, const char *pseudonym, bool *is_recorded_out, struct error *err);

RESULT erasure_select_row(struct pg *pg, const char *pseudonym, struct erasure_row *row_out, struct error *err);
/** One row with the leaf of the event that began the erasure, or none. */
RESULT erasure_select_event(struct pg *pg, const char *pseudonym, struct pg_rows **rows_out, struct error *err);
RESULT erasure_select_blind(struct pg *pg, uint64_t witness, int64_t *count_out, struct error *err);
RESULT erasure_delete_blind(struct pg *pg, const struct erasure_person *person, uint64_t begun, int64_t *gone_out,
                            struct error *err);
RESULT erasure_delete_key(struct pg *pg, const struct erasure_begin *begin, uint64_t begun, struct error *err);
RESULT erasure_rename_roles(struct pg *pg, const struct erasure_person *person, struct error *err);
RESULT erasure_delete_payloads(struct pg *pg, const char *pseudonym, const int64_t *numbers, size_t count, struct error *err);
/** ERROR_CONFLICT: it has ended already. */
RESULT erasure_close(struct pg *pg, const char *pseudonym, uint64_t ended, struct error *err);
