/*
 * registry/content_hold.h -- legal holds of content (docs/deletion.md, "Legal holds").
 *
 * While a hold is in force, nothing removes a manifest of its scope, not even what is left of a repository that was deleted before: each statement that removes one has
 * CONTENT_IS_HELD() in it, so a hold counts in the transaction of the removal, whenever it was set. One person sets a hold. To end it, one person asks, and another one agrees.
 */
#pragma once

#include "audit/sequencer.h"
#include "authz/role.h"
#include "storage/pg.h"

extern const struct pg_table content_hold_statements;

#define CONTENT_HOLD_REASON_MAX 500
#define CONTENT_HOLDS_MAX       1000 /* in force in one organisation: each removal looks at them */
#define CONTENT_HOLD_RULE       "LEGAL-HOLD"

/** In SQL: whether a hold in force covers the repository with this id. */
#define CONTENT_IS_HELD(repository)                                                                                  \
    "EXISTS (SELECT FROM repository n JOIN project o USING (project_id) JOIN content_hold h USING (organisation_id)" \
    " WHERE n.repository_id = " repository " AND h.released_at IS NULL"                                              \
    " AND (h.project_id IS NULL OR h.project_id = n.project_id) AND (h.repository IS NULL OR h.repository IN (n.full_name, n.deleted_name)))"

/** A change: sets a hold on the scope of the permit for content.hold. ERROR_NOT_FOUND: there is no such scope; ERROR_LIMIT. */
struct content_hold {
    struct change change;
    struct uuid id;
    const char *reason; /* must outlive the record */
    char by[PRINCIPAL_KEY_SIZE];
    char detail[UUID_TEXT_SIZE]; /* of the event: the id */
};
void content_hold_init(struct content_hold *hold, const struct principal *by, const char *reason);

/**
 * A change: asks for the end of a hold, under content.release, or agrees with it, under content.free. The resource of the permit is the hold's scope, with its id as the
 * detail. ERROR_NOT_FOUND: no such hold is in force there; ERROR_CONFLICT: `asked_by` has not asked in the last seven days.
 */
struct content_release {
    struct change change;
    enum action action;
    const char *text; /* content.release: why; content.free: who has asked, another one than `by` */
    char by[PRINCIPAL_KEY_SIZE];
};
void content_release_init(struct content_release *release, enum action action, const struct principal *by, const char *text);

struct content_hold_row {
    struct uuid id;
    const char *state; /* "held", "releasing", "released" */
    char on[RESOURCE_NAME_MAX + 1];
    char reason[CONTENT_HOLD_REASON_MAX + 1], release_reason[CONTENT_HOLD_REASON_MAX + 1];
    char set_by[PRINCIPAL_KEY_SIZE], asked_by[PRINCIPAL_KEY_SIZE], released_by[PRINCIPAL_KEY_SIZE]; /* "": nobody yet */
    int64_t set_ms, asked_ms, released_ms;                                                          /* 0: not yet */
};
struct content_hold_query {
    const struct uuid *after;
    size_t limit; /* at most CONTENT_HOLD_PAGE_MAX */
};
#define CONTENT_HOLD_PAGE_MAX 1001
/** By id, inside the scope of the permit for content.holds. The caller frees *rows_out. */
RESULT content_hold_list(const struct permit *permit, struct pg *pg, const struct content_hold_query *query,
                         struct content_hold_row **rows_out, size_t *count_out, struct error *err) __attribute__((nonnull));
