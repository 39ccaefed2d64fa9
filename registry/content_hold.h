/*
 * registry/content_hold.h -- legal holds of content (docs/deletion.md, "Legal holds").
 *
 * While a hold is in force, nothing removes a manifest of its scope, not even what is left of a repository that was deleted before: each statement that removes one has
 * MANIFEST_IS_HELD() in it, so a hold counts in the transaction of the removal, whenever it was set. One person sets a hold. To end it, one person asks, and another one agrees.
 * Signed holds (documents/format/erasure.h) count in the same statements, by their rows (registry/hold_rows.h).
 */
#pragma once

#include "audit/sequencer.h"
#include "authz/role.h"
#include "storage/pg.h"

extern const struct pg_table content_hold_statements;

#define CONTENT_HOLD_REASON_MAX 500
#define CONTENT_HOLDS_MAX       1000 /* in force in one organisation: each removal looks at them */
#define CONTENT_HOLD_RULE       "LEGAL-HOLD"

/* A row of content_hold on this repository, or a row of signed_hold for which `more` is true, too. A buried repository keeps the name that it had. */
#define CONTENT_IS_HELD_AND(repository, more)                                                                                                 \
    "(EXISTS (SELECT FROM repository n JOIN project o USING (project_id) JOIN content_hold h USING (organisation_id)"                         \
    " WHERE n.repository_id = " repository " AND h.released_at IS NULL"                                                                       \
    " AND (h.project_id IS NULL OR h.project_id = n.project_id) AND (h.repository IS NULL OR h.repository IN (n.full_name, n.deleted_name)))" \
    " OR EXISTS (SELECT FROM signed_hold h JOIN repository n ON coalesce(n.deleted_name, n.full_name) = h.content"                            \
    " OR starts_with(coalesce(n.deleted_name, n.full_name), h.content || '/')"                                                                \
    " WHERE n.repository_id = " repository " AND h.until > now() AND (h.digest IS NULL OR " more ")))"

/** In SQL: whether a hold in force covers the repository with this id, or a manifest that is in it. */
#define CONTENT_IS_HELD(repository) \
    CONTENT_IS_HELD_AND(repository, \
                        "EXISTS (SELECT FROM manifest d WHERE d.repository_id = " repository " AND d.digest = h.digest)")
/** In SQL: whether one covers all of the repository. */
#define REPOSITORY_IS_HELD(repository) CONTENT_IS_HELD_AND(repository, "false")
/* The manifest, and all that list it, and what lists these. */
#define LISTS_OF(repository, manifest)                                                                               \
    "(WITH RECURSIVE lists (digest) AS (SELECT " manifest " COLLATE \"C\" UNION SELECT d.manifest_digest FROM lists" \
    " JOIN manifest_reference d ON d.repository_id = " repository                                                    \
    " AND d.digest = lists.digest AND d.is_manifest) SELECT digest"                                                  \
    " FROM lists)"
/** In SQL: whether one covers this manifest of it. Also one that a held index lists, or an index in it. */
#define MANIFEST_IS_HELD(repository, manifest) CONTENT_IS_HELD_AND(repository, "h.digest IN " LISTS_OF(repository, manifest))

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
