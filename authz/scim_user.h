/*
 * authz/scim_user.h -- the rows of persons that a SCIM service provisions (docs/scim.md), and the changes of them.
 *
 * A person is its externalId, which is what one claim of its tokens says; names are sealed under the person's key. Each change runs in the transaction of its event, and
 * takes the service from the documents that are in force then. Rule: a permit for an action of FOR_PROVISIONERS. Connections need scim_user_table and audit_subject_table.
 */
#pragma once

#include "audit/sealed_text.h"
#include "audit/sequencer.h"
#include "authz/principal.h"
#include "authz/scim_entry.h"
#include "scim/user.h"
#include "storage/pg.h"

extern const struct pg_table scim_user_table, scim_change_table;

#define SCIM_PERSONS_MAX 200000 /* about, as PostgreSQL's statistics know it */
#define SCIM_PAGE_MAX    200

enum scim_name_kind { SCIM_USER_NAME_BOX = 1, SCIM_DISPLAY_NAME_BOX = 2 };

struct scim_user_row {
    struct uuid id;
    char external_id[SCIM_EXTERNAL_MAX + 1];
    bool is_active;
    int64_t version, created_ms, modified_ms;
    struct sealed_text user_name, display_name; /* length 0: there is none */
};

/** What a change needs of the registry. Views must outlive the record. */
struct scim_client {
    struct authz_directory *directory;
    const struct principal *principal; /* whose service it is */
    const char *issuer;                /* of the service when the request was read */
};

/** Names that were sealed before the change. */
struct scim_sealed_names {
    bool has_name, has_display_name; /* otherwise they stay */
    uint8_t index[32];
    struct sealed_text user_name, display_name; /* length 0: removed */
};
/** `what` of a box: the person's externalId and the kind, so it opens in this place alone. */
RESULT scim_names_seal(const struct search_source *source, const char *issuer, const char *external_id,
                       const struct scim_user_edit *edit, struct scim_sealed_names *names_out, struct error *err);
/** What a permit lets its holder look at: it is for `action`. */
struct scim_look {
    enum action action;
    const struct search_source *source;
    const char *issuer; /* of the service */
};
/** "" if there is none, or if its key is gone. */
RESULT scim_name_open(const struct permit *permit, const struct scim_look *look, const struct scim_user_row *row,
                      enum scim_name_kind kind, char text_out[SEALED_TEXT_MAX + 1], struct error *err) __attribute__((nonnull));
/** The index of a userName, in any case of ASCII letters. */
RESULT scim_name_index(const struct search_source *source, const char *issuer, const char *user_name, uint8_t index_out[32],
                       struct error *err);

/* ---- looking ---- */

/** ERROR_NOT_FOUND. */
RESULT scim_user_find(const struct permit *permit, const struct scim_look *look, const struct uuid *id,
                      struct scim_user_row *row_out, struct error *err) __attribute__((nonnull));
/** The person of a change, which has no permit before its event: nothing of it is shown. ERROR_NOT_FOUND. */
RESULT scim_user_of(struct pg *pg, const char *issuer, const struct uuid *id, struct scim_user_row *row_out, struct error *err)
    __attribute__((nonnull));
/** NULL or nil: any. */
struct scim_user_query {
    const char *issuer;
    const struct uuid *id;
    const char *external_id;
    const uint8_t *name_index;
    const bool *active;
    int64_t first; /* from 0 */
    size_t limit;  /* at most SCIM_PAGE_MAX */
};
struct scim_user_page {
    int64_t total;
    size_t count;
    struct scim_user_row rows[SCIM_PAGE_MAX];
};
RESULT scim_user_list(const struct permit *permit, struct pg *pg, const struct scim_user_query *query,
                      struct scim_user_page *page, struct error *err) __attribute__((nonnull));
/** For people who may read the document. */
struct scim_counts {
    int64_t active, inactive, groups, ended_lately; /* the last: within an hour, since the document of the service */
};
RESULT scim_count(const struct permit *permit, struct pg *pg, const char *issuer, int64_t since_ms,
                  struct scim_counts *counts_out, struct error *err) __attribute__((nonnull));

/* ---- changes ---- */

#define SCIM_DETAIL_SIZE 224 /* an id, a state and two digests that the log tells of a person (audit/format/scim_state.h) */
struct scim_user_change {
    struct change change; /* points into this struct: don't copy it */
    struct scim_client client;
    const struct scim_user_edit *edit; /* NULL: the person is deleted */
    const struct scim_sealed_names *names;
    char external_id[SCIM_EXTERNAL_MAX + 1];
    bool is_new;
    struct uuid id;
    int64_t if_version;                       /* 0: whatever it is */
    bool is_other;                            /* the version is another one: the change has failed */
    int64_t created_ms, modified_ms, version; /* afterwards */
    char detail[SCIM_DETAIL_SIZE];
};
/**
 * Under scim.create. ERROR_CONFLICT: the externalId or the userName is there; a person that was deleted comes back.
 */
void scim_user_create_init(struct scim_user_change *change, const struct scim_client *client, const struct scim_user_edit *edit,
                           const struct scim_sealed_names *names);
/**
 * Under scim.end if the person may not come in afterwards (scim_user_ends(), or `edit` NULL: it is deleted), else under scim.change. ERROR_NOT_FOUND; ERROR_CONFLICT: see
 * is_other, or the userName is there, or the person is the last administrator; ERROR_DENIED: as many persons were deactivated within an hour as the service's document
 * allows. `raises`: whether the person may begin or cease to be active.
 */
void scim_user_change_init(struct scim_user_change *change, const struct scim_client *client, const struct scim_user_row *person,
                           const struct scim_user_edit *edit, const struct scim_sealed_names *names, bool raises);
