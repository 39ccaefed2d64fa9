/* Counts the content for a deletion, and makes the change. */
#include "registry/jobs/erase.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "audit/format/leaf.h"
#include "crypto/digest.h"
#include "registry/content_hold.h"
#include "registry/jobs/statements.h"
#include "storage/pg_table.h"

/* clang-format off */
#define CATCH_UPS 8 /* each one has fewer events to check than the one before */
#define OCSF_READ 2 /* action_ocsf_type() % 100 of actions that only read */

/* Whether r, with its project p, is inside the resource: $1, $2, $3 are organisation, project and repository; NULL below its
 * level. */
#define INSIDE                                                                                                       \
    "r.deleted_at IS NULL AND p.deleted_at IS NULL AND p.organisation_id = $1 AND ($2::uuid IS NULL OR p.project_id = $2)" \
    " AND ($3::uuid IS NULL OR r.repository_id = $3)"
#define PROJECTS                                                                                                      \
    "projects AS MATERIALIZED (SELECT p.project_id, p.label FROM project p WHERE p.deleted_at IS NULL"                 \
    " AND p.organisation_id = $1 AND ($2::uuid IS NULL OR p.project_id = $2) AND $3::uuid IS NULL)"
#define REPOSITORIES                                                                                                  \
    "repositories AS MATERIALIZED (SELECT r.repository_id, r.project_id, r.name, r.full_name, r.label FROM repository r" \
    " JOIN project p USING (project_id) WHERE " INSIDE ")"
/* Bindings on the resource, and on resources inside it. */
#define BINDINGS(columns)                                                                                             \
    "SELECT " columns " FROM binding b WHERE b.revoked_at IS NULL AND b.organisation_id = $1"                          \
    " AND ($2::uuid IS NULL OR b.project_id = $2)"                                                                    \
    " AND ($3::uuid IS NULL OR b.pattern = (SELECT full_name FROM repository WHERE repository_id = $3))"
#define ROBOTS(columns)                                                                                               \
    "SELECT " columns " FROM robot o WHERE o.revoked_at IS NULL AND o.organisation_id = $1 AND $2::uuid IS NULL"
/* Drafts of signed documents, which end with their scope. */
#define DRAFTS(columns)                                                                                                 \
    "SELECT " columns " FROM document_draft d WHERE d.organisation_id = $1 AND d.expires_at > now() AND $3::uuid IS NULL" \
    " AND ($2::uuid IS NULL OR d.scope = (SELECT o.name || '/' || p.name FROM project p JOIN organisation o USING (organisation_id)" \
    " WHERE p.project_id = $2))"
/* Signing keys and runners of the scope, which no longer count after the deletion (docs/documents.md). Policy sets have no
 * scope. */
#define DOCUMENTS(columns)                                                                                                \
    "SELECT " columns " FROM document d JOIN organisation o ON o.organisation_id = $1 LEFT JOIN project p ON p.project_id = $2" \
    " WHERE d.kind <> 1 AND d.version = 1 AND $3::uuid IS NULL AND d.recorded_at >= coalesce(p.created_at, o.created_at)"      \
    " AND (d.scope = o.name || coalesce('/' || p.name, '') OR $2::uuid IS NULL AND starts_with(d.scope, o.name || '/'))"
#define OF_REPOSITORIES(table) table " JOIN repositories USING (repository_id)"
#define END_BINDINGS           "UPDATE binding SET revoked_at = now() WHERE revoked_at IS NULL AND organisation_id = $1"
#define HASH(text)             "sha256(convert_to(" text ", 'UTF8'))"
#define THREE                  "uuid uuid uuid"

static const struct pg_statement erase_size_sql = {
    "erase_size",
    "WITH " REPOSITORIES " SELECT (SELECT count(*) FROM (SELECT FROM " OF_REPOSITORIES("tag") " LIMIT $4) t)"
    " + (SELECT count(*) FROM (SELECT FROM " OF_REPOSITORIES("manifest") " LIMIT $4) m)"
    " + (SELECT count(*) FROM (SELECT FROM " OF_REPOSITORIES("repository_blob") " LIMIT $4) l)"
    " + (SELECT count(*) FROM (SELECT FROM repositories LIMIT $4) r),"
    " (SELECT count(*) FROM (" BINDINGS("1") " LIMIT $5) b) + (SELECT count(*) FROM (" ROBOTS("1") " LIMIT $5) o)"
    " + (SELECT count(*) FROM (SELECT FROM " OF_REPOSITORIES("upload") " LIMIT $5) u)"
    " + (SELECT count(*) FROM (SELECT FROM project WHERE organisation_id = $1 AND deleted_at IS NULL AND $2::uuid IS NULL"
    " LIMIT $5) p)",
    THREE " int8 int8", "int8 int8"};
static const struct pg_statement erase_count_sql = {
    "erase_count",
    "WITH " PROJECTS ", " REPOSITORIES ","
    " linked AS (SELECT DISTINCT l.blob_id FROM " OF_REPOSITORIES("repository_blob l") "),"
    " held AS (SELECT b.blob_id, b.size_bytes, $3::uuid IS NOT NULL AND EXISTS (SELECT FROM repository_blob l JOIN repository r"
    " USING (repository_id) WHERE l.blob_id = b.blob_id AND l.repository_id <> $3 AND r.deleted_at IS NULL OFFSET 0) AS is_shared"
    " FROM blob b WHERE b.project_id IN (SELECT project_id FROM projects) OR ($3::uuid IS NOT NULL AND b.blob_id IN"
    " (SELECT blob_id FROM linked))),"
    " sessions AS (SELECT u.upload_id FROM " OF_REPOSITORIES("upload u") ")"
    " SELECT (SELECT count(*) FROM projects), (SELECT count(*) FROM repositories),"
    " (SELECT count(*) FROM " OF_REPOSITORIES("tag") "),"
    " m.count, (SELECT count(*) FROM sessions), (SELECT count(*) FROM (" BINDINGS("1") ") b),"
    " (SELECT count(*) FROM (" ROBOTS("1") ") o),"
    " (SELECT count(*) FROM repositories WHERE label <> '{}') + (SELECT count(*) FROM projects WHERE label <> '{}')"
    " + (SELECT count(*) FROM " OF_REPOSITORIES("stored_label") "),"
    " h.count, (h.bytes + m.bytes)::int8, h.shared,"
    " (SELECT count(DISTINCT (t.repository_id, t.name)) FROM repositories r JOIN project_rules q USING (project_id)"
    " CROSS JOIN LATERAL unnest(q.immutable_repositories, q.immutable_tags) AS i (repositories, tags)"
    " JOIN tag t ON t.repository_id = r.repository_id WHERE r.name LIKE i.repositories AND t.name LIKE i.tags),"
    " (SELECT count(*) FROM (" DRAFTS("1") ") d), (SELECT count(*) FROM (" DOCUMENTS("1") ") k)"
    " FROM (SELECT count(*), coalesce(sum(size_bytes), 0) AS bytes FROM " OF_REPOSITORIES("manifest") ") m,"
    " (SELECT count(*) FILTER (WHERE NOT is_shared), count(*) FILTER (WHERE is_shared) AS shared,"
    " coalesce(sum(size_bytes) FILTER (WHERE NOT is_shared), 0) AS bytes FROM held) h",
    THREE, "int8 int8 int8 int8 int8 int8 int8 int8 int8 int8 int8 int8 int8 int8"};
static const struct pg_statement erase_content_sql = {
    "erase_content",
    "WITH " PROJECTS ", " REPOSITORIES
    " SELECT sha256(coalesce(string_agg(h, ''::bytea ORDER BY h), ''::bytea)) FROM ("
    " SELECT " HASH("'project ' || project_id || label") " AS h FROM projects"
    " UNION ALL SELECT " HASH("'repository ' || repository_id || label") " FROM repositories"
    " UNION ALL SELECT " HASH("'tag ' || repository_id || tag.name || ' ' || manifest_digest") " FROM " OF_REPOSITORIES("tag")
    " UNION ALL SELECT " HASH("'manifest ' || repository_id || digest") " FROM " OF_REPOSITORIES("manifest")
    " UNION ALL SELECT " HASH("'link ' || repository_id || digest || blob_id") " FROM " OF_REPOSITORIES("repository_blob")
    " UNION ALL SELECT " HASH("'blob ' || blob_id") " FROM blob WHERE project_id IN (SELECT project_id FROM projects)"
    " UNION ALL SELECT " HASH("'session ' || upload_id") " FROM " OF_REPOSITORIES("upload")
    " UNION ALL SELECT " HASH("'stored ' || repository_id || policy_id || stored_label.label") " FROM "
    OF_REPOSITORIES("stored_label")
    " UNION ALL " BINDINGS(HASH("'binding ' || b.binding_id"))
    " UNION ALL " ROBOTS(HASH("'robot ' || o.robot_id"))
    " UNION ALL " DRAFTS(HASH("'draft ' || d.kind || ' ' || encode(d.digest, 'hex')"))
    " UNION ALL " DOCUMENTS(HASH("'document ' || d.kind || ' ' || d.detail"))
    " UNION ALL SELECT " HASH("'rules ' || project_id || version") " FROM project_rules WHERE project_id IN"
    " (SELECT project_id FROM projects UNION SELECT project_id FROM repositories)) AS content",
    THREE, "bytea"};
static const struct pg_statement erase_exists_sql = {
    "erase_exists",
    "SELECT CASE WHEN $3::uuid IS NOT NULL THEN EXISTS (SELECT FROM repository r JOIN project p USING (project_id)"
    " WHERE r.repository_id = $3 AND r.deleted_at IS NULL AND p.deleted_at IS NULL AND p.project_id = $2 AND p.organisation_id = $1)"
    " WHEN $2::uuid IS NOT NULL THEN EXISTS (SELECT FROM project WHERE project_id = $2 AND organisation_id = $1 AND deleted_at IS NULL)"
    " ELSE EXISTS (SELECT FROM organisation WHERE organisation_id = $1 AND deleted_at IS NULL) END",
    THREE, "bool"};
static const struct pg_statement erase_immutable_tag_sql = {
    "erase_immutable_tag",
    "WITH " REPOSITORIES " SELECT r.full_name || ':' || t.name FROM repositories r JOIN project_rules q USING (project_id)"
    " CROSS JOIN LATERAL unnest(q.immutable_repositories, q.immutable_tags) AS i (repositories, tags)"
    " JOIN tag t ON t.repository_id = r.repository_id WHERE r.name LIKE i.repositories AND t.name LIKE i.tags"
    " ORDER BY 1 LIMIT 1",
    THREE, "text"};
static const struct pg_statement erase_repositories_sql = {
    "erase_repositories",
    "SELECT full_name, stored, is_held FROM (SELECT r.full_name, " CONTENT_IS_HELD("r.repository_id") " AS is_held, greatest((SELECT max(created_at) FROM manifest m"
    " WHERE m.repository_id = r.repository_id), (SELECT max(linked_at) FROM repository_blob l"
    " WHERE l.repository_id = r.repository_id)) AS stored FROM repository r JOIN project p USING (project_id)"
    " WHERE " INSIDE " AND r.full_name > $4) s WHERE stored IS NOT NULL ORDER BY full_name LIMIT $5",
    THREE " text int8", "text timestamptz bool"};
static const struct pg_statement erase_log_size_sql = {"erase_log_size", "SELECT size FROM audit_log", "", "int8"};
/* Counts the events of the resource since $2, and those of them that may have changed it. ORDER BY makes the planner use the
 * index for the resource and for each entry, so the time depends only on $3. */
static const struct pg_statement erase_changes_sql = {
    "erase_changes",
    "SELECT count(*), count(*) FILTER (WHERE e.seq IS NULL OR (e.outcome <> 'denied' AND e.action <> ALL($4)))"
    " FROM (SELECT s.seq FROM audit_run r CROSS JOIN LATERAL unnest(r.seqs) AS s (seq) WHERE r.key = $1 AND r.last >= $2"
    " AND s.seq >= $2 ORDER BY r.last LIMIT $3) w LEFT JOIN LATERAL (SELECT e.seq, e.action, e.outcome FROM audit_entry e WHERE e.seq = w.seq"
    " OFFSET 0) e ON true",
    "bytea int8 int8 text[]", "int8 int8"};
static const struct pg_statement erase_is_outdated_sql = {
    "erase_is_outdated",
    "SELECT EXISTS (SELECT FROM authorization_change WHERE epoch > $2"
    " AND organisation_id IN ($1, '00000000-0000-0000-0000-000000000000'))",
    "uuid int8", "bool"};
/* The statements from here on run under the log's lock. Each one finds its rows by an index, without reading the repositories. */
static const struct pg_statement erase_sessions_sql = {
    "erase_sessions",
    "WITH gone AS (DELETE FROM upload u WHERE u.organisation_id = $1 AND ($2::uuid IS NULL OR u.project_id = $2)"
    " AND ($3::uuid IS NULL OR u.repository_id = $3) RETURNING u.blob_id, u.region_id, u.project_id, u.reserved_bytes),"
    " released AS (UPDATE project_quota q SET bytes_used = q.bytes_used - s.bytes FROM (SELECT project_id,"
    " sum(reserved_bytes)::int8 AS bytes FROM gone GROUP BY project_id) s WHERE q.project_id = s.project_id)"
    " INSERT INTO abandoned_object (blob_id, region_id) SELECT blob_id, region_id FROM gone",
    THREE, ""};
static const struct pg_statement erase_bindings_organisation_sql = {"erase_bindings_organisation", END_BINDINGS, "uuid", ""};
static const struct pg_statement erase_bindings_project_sql = {
    "erase_bindings_project", END_BINDINGS " AND project_id = $2", "uuid uuid", ""};
static const struct pg_statement erase_bindings_repository_sql = {
    "erase_bindings_repository",
    END_BINDINGS " AND project_id = $2 AND pattern = (SELECT full_name FROM repository WHERE repository_id = $3)", THREE, ""};
static const struct pg_statement erase_robots_sql = {
    "erase_robots", "UPDATE robot SET revoked_at = now() WHERE revoked_at IS NULL AND organisation_id = $1", "uuid", ""};
static const struct pg_statement erase_organisation_sql = {
    "erase_organisation", "SELECT 1::int8 FROM bury_organisation($1)", "uuid", "int8"};
static const struct pg_statement erase_project_sql = {"erase_project", "SELECT 1::int8 FROM bury_project($1)", "uuid", "int8"};
static const struct pg_statement erase_repository_sql = {
    "erase_repository", "SELECT 1::int8 FROM bury_repository($1)", "uuid", "int8"};
static const struct pg_statement erase_raise_epoch_sql = {
    "erase_raise_epoch", "WITH raised AS (SELECT raise_authorization_epoch($1, true) AS epoch) SELECT epoch FROM raised", "uuid",
    "int8"};
static const struct pg_statement *const statements[] = {
    &erase_size_sql, &erase_count_sql, &erase_content_sql, &erase_exists_sql, &erase_immutable_tag_sql, &erase_repositories_sql,
    &erase_log_size_sql, &erase_changes_sql, &erase_is_outdated_sql, &erase_sessions_sql, &erase_bindings_organisation_sql,
    &erase_bindings_project_sql, &erase_bindings_repository_sql, &erase_robots_sql, &erase_organisation_sql, &erase_project_sql,
    &erase_repository_sql, &erase_raise_epoch_sql,
};
/* clang-format on */
const struct pg_table erase_statements = PG_TABLE(statements);

enum action erase_action(enum resource_kind kind)
{
    assert(kind != RESOURCE_SYSTEM);
    if (kind == RESOURCE_ORGANISATION) return ACTION_ORGANISATION_DELETE;
    return kind == RESOURCE_PROJECT ? ACTION_PROJECT_DELETE : ACTION_REPOSITORY_DELETE;
}

bool erase_is_empty(const struct erase_counts *counts)
{
    return counts->projects == 0 && counts->repositories == 0 && counts->tags == 0 && counts->manifests == 0 &&
           counts->uploads == 0 && counts->bindings == 0 && counts->robots == 0 && counts->blobs == 0 &&
           counts->blobs_shared == 0 && counts->drafts == 0 && counts->documents == 0;
}

static void add_place(struct pg_arguments *arguments, const struct resource *where)
{
    pg_add_uuid(arguments, &where->organisation);
    pg_add_uuid(arguments, where->kind >= RESOURCE_PROJECT ? &where->project : NULL);
    pg_add_uuid(arguments, where->kind == RESOURCE_REPOSITORY ? &where->repository : NULL);
}

/* The deleted project or repository does not count as inside itself. */
static void leave_out_itself(const struct resource *where, struct erase_counts *counts)
{
    if (where->kind == RESOURCE_PROJECT) counts->projects--;
    if (where->kind == RESOURCE_REPOSITORY) counts->repositories--;
}

static struct result check_exists(struct pg *pg, const struct resource *where, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    add_place(&arguments, where);
    TRY(pg_run(pg, &erase_exists_sql, &arguments, &rows, err));
    return pg_bool(rows, 0, 0) ? SUCCESS : failure(err, ERROR_NOT_FOUND, "there is no such thing any more");
}

static struct result count_all(struct pg *pg, const struct resource *where, struct erase_counts *counts, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL, *hash = NULL;

    add_place(&arguments, where);
    TRY(pg_run(pg, &erase_count_sql, &arguments, &rows, err));
    TRY(pg_run(pg, &erase_content_sql, &arguments, &hash, err));
    int64_t *const places[] = {&counts->projects, &counts->repositories, &counts->tags,         &counts->manifests,
                               &counts->uploads,  &counts->bindings,     &counts->robots,       &counts->labels,
                               &counts->blobs,    &counts->bytes,        &counts->blobs_shared, &counts->tags_immutable,
                               &counts->drafts,   &counts->documents};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) *places[i] = pg_int8(rows, 0, i);
    const struct bytes content = pg_bytes(hash, 0, 0);
    assert(content.length == sizeof counts->content); /* the size of PostgreSQL's sha256() */
    memcpy(counts->content, content.data, content.length);
    leave_out_itself(where, counts);
    return SUCCESS;
}

static struct result check_size(struct pg *pg, const struct resource *where, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    add_place(&arguments, where);
    pg_add_int8(&arguments, ERASE_ROWS_MAX + 1);
    pg_add_int8(&arguments, ERASE_RIGHTS_MAX + 1);
    TRY(pg_run(pg, &erase_size_sql, &arguments, &rows, err));
    if (pg_int8(rows, 0, 0) > ERASE_ROWS_MAX)
        return failure(err, ERROR_LIMIT,
                       "more than %d tags, manifests and blobs: delete its repositories first, or let rules remove old content",
                       ERASE_ROWS_MAX);
    if (pg_int8(rows, 0, 1) > ERASE_RIGHTS_MAX)
        return failure(err, ERROR_LIMIT,
                       "more than %d projects, roles, robots and open uploads: delete, revoke or end some first",
                       ERASE_RIGHTS_MAX);
    return SUCCESS;
}

static struct result read_log_size(struct pg *pg, int64_t *size_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, &erase_log_size_sql, NULL, &rows, err));
    *size_out = pg_int8(rows, 0, 0);
    return SUCCESS;
}

static void require(const struct permit *permit, const struct erase_view *view)
{
    assert(view->action == ACTION_DELETION_PLAN || view->action == erase_action(view->where->kind));
    permit_require(permit, view->action, view->where);
}

/* The log's size is read first. So each change whose event is before `seen` is in the count. */
struct result erase_count(const struct permit *permit, struct pg *pg, const struct erase_view *view,
                          struct erase_counts *counts_out, struct error *err)
{
    struct erase_counts counts = {.seen = 0};

    require(permit, view);
    TRY(read_log_size(pg, &counts.seen, err));
    TRY(check_exists(pg, view->where, err));
    TRY(check_size(pg, view->where, err));
    TRY(count_all(pg, view->where, &counts, err));
    *counts_out = counts;
    return SUCCESS;
}

/* The actions that only read. Each other action counts as a change; if it changed nothing, the only cost is another plan. */
static size_t reading_actions(struct bytes names_out[ACTION_COUNT])
{
    size_t count = 0;

    for (enum action action = 0; action < ACTION_COUNT; action++)
        if (action_ocsf_type(action) % 100 == OCSF_READ) names_out[count++] = bytes_of_text(action_name(action));
    return count;
}

/* Counts the resource's events from `seen` on, at most `limit`. ERROR_CONFLICT if one of them may be a change, or the limit is
 * reached. */
static struct result check_changes(struct pg *pg, const struct resource *where, int64_t seen, int64_t limit, int64_t *count_out,
                                   struct error *err)
{
    static const char *const kinds[] = {
        [RESOURCE_ORGANISATION] = "org:", [RESOURCE_PROJECT] = "prj:", [RESOURCE_REPOSITORY] = "res:"};
    struct pg_arguments arguments = {0};
    struct bytes reading[ACTION_COUNT];
    uint8_t id[LEAF_KEY_ID_SIZE];
    char key[LEAF_KEY_MAX + 1];
    OWNED(pg_rows) *rows = NULL;

    (void)snprintf(key, sizeof key, "%s%s", kinds[where->kind], where->name);
    leaf_key_id(key, id);
    pg_add_bytes(&arguments, (struct bytes){id, sizeof id});
    pg_add_int8(&arguments, seen);
    pg_add_int8(&arguments, limit);
    pg_add_text_array(&arguments, reading, reading_actions(reading));
    TRY(pg_run(pg, &erase_changes_sql, &arguments, &rows, err));
    *count_out = pg_int8(rows, 0, 0);
    if (*count_out < limit && pg_int8(rows, 0, 1) == 0) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "its content changed meanwhile; look at the plan again");
}

struct result erase_catch_up(const struct permit *permit, struct pg *pg, const struct erase_view *view,
                             struct erase_counts *counts, struct error *err)
{
    require(permit, view);
    for (unsigned i = 0; i < CATCH_UPS; i++) {
        int64_t size = 0, count = 0;
        TRY(read_log_size(pg, &size, err));
        TRY(check_changes(pg, view->where, counts->seen, INT64_MAX, &count, err));
        counts->seen = size;
        if (count < ERASE_EVENTS_MAX / 4) return SUCCESS;
    }
    return SUCCESS; /* the change has its own limit of events */
}

struct result erase_immutable_tag(const struct permit *permit, struct pg *pg, const struct erase_view *view, char *tag_out,
                                  size_t size, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    require(permit, view);
    add_place(&arguments, view->where);
    TRY(pg_run(pg, &erase_immutable_tag_sql, &arguments, &rows, err));
    (void)snprintf(tag_out, size, "%s", pg_rows_count(rows) == 0 ? "" : pg_text(rows, 0, 0));
    return SUCCESS;
}

struct result erase_repositories(const struct permit *permit, struct pg *pg, const struct erase_view *view,
                                 struct erase_page *page, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    require(permit, view);
    add_place(&arguments, view->where);
    pg_add_text(&arguments, page->last);
    pg_add_int8(&arguments, ERASE_PAGE);
    TRY(pg_run(pg, &erase_repositories_sql, &arguments, &rows, err));
    page->count = pg_rows_count(rows);
    for (size_t i = 0; i < page->count; i++) {
        struct erase_repository *repository = &page->repositories[i];
        (void)snprintf(repository->name, sizeof repository->name, "%s", pg_text(rows, i, 0));
        repository->stored_ms = pg_time_ms(rows, i, 1);
        repository->is_held = pg_bool(rows, i, 2);
    }
    return SUCCESS;
}

static struct result check_rights(struct pg *pg, const struct erase *erase, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &erase->where.organisation);
    pg_add_int8(&arguments, (int64_t)erase->epoch);
    TRY(pg_run(pg, &erase_is_outdated_sql, &arguments, &rows, err));
    return pg_bool(rows, 0, 0) ? failure(err, ERROR_CONFLICT, "rights or policies changed meanwhile; look at the plan again")
                               : SUCCESS;
}

/* Ends the sessions, roles and robots. */
static struct result end_all(struct pg *pg, const struct resource *where, struct error *err)
{
    static const struct pg_statement *const bindings[] = {[RESOURCE_ORGANISATION] = &erase_bindings_organisation_sql,
                                                          [RESOURCE_PROJECT] = &erase_bindings_project_sql,
                                                          [RESOURCE_REPOSITORY] = &erase_bindings_repository_sql};
    struct pg_arguments arguments = {0}, scope = {0}, organisation = {0};

    add_place(&arguments, where);
    pg_add_uuid(&scope, &where->organisation);
    if (where->kind >= RESOURCE_PROJECT) pg_add_uuid(&scope, &where->project);
    if (where->kind == RESOURCE_REPOSITORY) pg_add_uuid(&scope, &where->repository);
    pg_add_uuid(&organisation, &where->organisation);
    TRY(pg_run(pg, &erase_sessions_sql, &arguments, NULL, err));
    TRY(pg_run(pg, bindings[where->kind], &scope, NULL, err));
    return where->kind == RESOURCE_ORGANISATION ? pg_run(pg, &erase_robots_sql, &organisation, NULL, err) : SUCCESS;
}

static struct result mark_deleted(struct pg *pg, const struct resource *where, struct error *err)
{
    const bool is_repository = where->kind == RESOURCE_REPOSITORY, is_project = where->kind == RESOURCE_PROJECT;
    struct pg_arguments arguments = {0}, organisation = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, is_repository ? &where->repository : is_project ? &where->project : &where->organisation);
    TRY(pg_run(pg,
               is_repository ? &erase_repository_sql
               : is_project  ? &erase_project_sql
                             : &erase_organisation_sql,
               &arguments, &rows, err));
    pg_add_uuid(&organisation, &where->organisation);
    return pg_run(pg, &erase_raise_epoch_sql, &organisation, NULL, err);
}

static struct result run_erase(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct erase *erase = (const struct erase *)(const void *)change; /* its first member */
    int64_t count = 0;

    permit_require(permit, erase_action(erase->where.kind), &erase->where);
    TRY(check_exists(pg, &erase->where, err));
    TRY(check_rights(pg, erase, err));
    TRY(check_changes(pg, &erase->where, erase->seen, ERASE_EVENTS_MAX, &count, err));
    TRY(end_all(pg, &erase->where, err));
    return mark_deleted(pg, &erase->where, err);
}

void erase_prepare(const struct resource *where, const struct erase_counts *counts, uint64_t epoch, struct erase *erase_out)
{
    *erase_out = (struct erase){.change = {.run = run_erase, .raises_epoch = true, .is_alone = true},
                                .where = *where,
                                .seen = counts->seen,
                                .epoch = epoch};
}
