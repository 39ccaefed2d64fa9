#include "registry/jobs/erased_store.h"

#include <stdio.h>

#include "registry/content_hold.h"
#include "registry/jobs/statements.h"
#include "storage/pg_table.h"

/* clang-format off */
/* Longer than the time from a request's look-up of a repository to its change. */
#define LATELY "interval '10 minutes'"

static const struct pg_statement erased_mark_sql = {
    "erased_mark",
    "SELECT 1::int8 FROM (SELECT repository_id FROM repository r JOIN project p USING (project_id) WHERE r.project_id = $1"
    " AND r.deleted_at IS NULL AND p.deleted_at IS NOT NULL LIMIT $2) r CROSS JOIN LATERAL bury_repository(r.repository_id)",
    "uuid int8", "int8"};
static const struct pg_statement erased_repository_sql = {
    "erased_repository",
    "SELECT r.repository_id, r.deleted_name FROM repository r WHERE r.project_id = $1 AND r.deleted_at IS NOT NULL AND r.repository_id > $2"
    " AND NOT " CONTENT_IS_HELD("r.repository_id") " ORDER BY r.repository_id LIMIT 1",
    "uuid uuid", "uuid text"};
static const struct pg_statement erased_repository_of_sql = {
    "erased_repository_of", /* for a dry run, which has marked no repository as deleted */
    "SELECT r.repository_id, coalesce(r.deleted_name, r.full_name) FROM repository r WHERE r.project_id = $1 AND r.repository_id > $2"
    " AND NOT " CONTENT_IS_HELD("r.repository_id") " ORDER BY r.repository_id LIMIT 1",
    "uuid uuid", "uuid text"};
static const struct pg_statement erased_manifests_sql = {
    "erased_manifests",
    "SELECT m.digest, m.size_bytes::int8, (SELECT count(*) FROM tag t WHERE t.repository_id = $1 AND t.manifest_digest = m.digest)"
    " FROM manifest m WHERE m.repository_id = $1 AND m.digest > $2 ORDER BY m.digest LIMIT $3",
    "uuid text int8", "text int8 int8"};
static const struct pg_statement erased_tags_sql = {
    "erased_tags",
    "DELETE FROM tag t USING (SELECT repository_id, tag.name FROM tag JOIN repository r USING (repository_id)"
    " WHERE repository_id = $1 AND manifest_digest = $2 AND r.deleted_at IS NOT NULL LIMIT $3) d"
    " WHERE t.repository_id = d.repository_id AND t.name = d.name AND t.manifest_digest = $2",
    "uuid text int8", ""};
static const struct pg_statement erased_manifest_sql = {
    "erased_manifest",
    "WITH doomed AS (SELECT m.repository_id, m.digest, m.size_bytes FROM manifest m JOIN repository r USING (repository_id)"
    " WHERE m.repository_id = $1 AND m.digest = $2 AND r.deleted_at IS NOT NULL AND NOT " CONTENT_IS_HELD("$1") "),"
    " untagged AS (DELETE FROM tag t USING doomed d WHERE t.repository_id = d.repository_id AND t.manifest_digest = d.digest),"
    " counted AS (UPDATE project_quota q SET bytes_used = q.bytes_used - d.size_bytes FROM doomed d WHERE q.project_id = $3)"
    " DELETE FROM manifest m USING doomed d WHERE m.repository_id = d.repository_id AND m.digest = d.digest",
    "uuid text uuid", ""};
static const struct pg_statement erased_links_sql = {
    "erased_links",
    "DELETE FROM repository_blob l USING (SELECT repository_id, digest, blob_id FROM repository_blob JOIN repository r"
    " USING (repository_id) WHERE repository_id = $1 AND r.deleted_at IS NOT NULL AND NOT " CONTENT_IS_HELD("$1") " LIMIT $2) d WHERE l.repository_id = d.repository_id"
    " AND l.digest = d.digest AND l.blob_id = d.blob_id",
    "uuid int8", ""};
static const struct pg_statement erased_remove_sql = {
    "erased_remove",
    "SELECT remove_buried_repository(repository_id) FROM repository WHERE repository_id = $1 AND deleted_at < now() - " LATELY,
    "uuid", "bool"};
static const struct pg_statement erased_project_left_sql = {
    "erased_project_left",
    "SELECT EXISTS (SELECT FROM repository WHERE project_id = $1) OR EXISTS (SELECT FROM blob WHERE project_id = $1)"
    " OR EXISTS (SELECT FROM upload WHERE project_id = $1) OR EXISTS (SELECT FROM copying WHERE project_id = $1)",
    "uuid", "bool"};
static const struct pg_statement erased_project_sql = {"erased_project", "SELECT empty_buried_project($1)", "uuid", "bool"};
static const struct pg_statement *const statements[] = {
    &erased_mark_sql, &erased_repository_sql, &erased_repository_of_sql, &erased_manifests_sql, &erased_tags_sql,
    &erased_manifest_sql, &erased_links_sql, &erased_remove_sql, &erased_project_left_sql, &erased_project_sql,
};
/* clang-format on */
const struct pg_table erased_statements = PG_TABLE(statements);

struct result erased_mark_repositories(struct pg *pg, const struct uuid *project, size_t *count_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, project);
    pg_add_int8(&arguments, ERASED_PAGE);
    TRY(pg_run(pg, &erased_mark_sql, &arguments, &rows, err));
    *count_out = pg_rows_count(rows);
    return SUCCESS;
}

struct result erased_next_repository(struct pg *pg, const struct collect_project *project, const struct uuid *last,
                                     struct collect_repository *repository_out, bool *found_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &project->id);
    pg_add_uuid(&arguments, last);
    TRY(pg_run(pg, project->is_deleted ? &erased_repository_of_sql : &erased_repository_sql, &arguments, &rows, err));
    *found_out = pg_rows_count(rows) > 0;
    if (!*found_out) return SUCCESS;
    *repository_out = (struct collect_repository){.id = pg_uuid(rows, 0, 0)};
    (void)snprintf(repository_out->name, sizeof repository_out->name, "%s", pg_text(rows, 0, 1));
    return SUCCESS;
}

struct result erased_read_manifests(struct pg *pg, const struct uuid *repository, const char *last, struct pg_rows **rows_out,
                                    struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, repository);
    pg_add_text(&arguments, last);
    pg_add_int8(&arguments, ERASED_PAGE);
    return pg_run(pg, &erased_manifests_sql, &arguments, rows_out, err);
}

void erased_manifest_of(const struct pg_rows *rows, size_t row, struct collect_manifest *manifest_out)
{
    *manifest_out = (struct collect_manifest){.size_bytes = pg_int8(rows, row, 1), .tags = pg_int8(rows, row, 2)};
    (void)snprintf(manifest_out->digest, sizeof manifest_out->digest, "%s", pg_text(rows, row, 0));
}

struct result erased_tags_delete(struct pg *pg, const struct uuid *repository, const char *digest, size_t *count_out,
                                 struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, repository);
    pg_add_text(&arguments, digest);
    pg_add_int8(&arguments, ERASED_PAGE);
    TRY(pg_run(pg, &erased_tags_sql, &arguments, &rows, err));
    *count_out = (size_t)pg_rows_affected(rows);
    return SUCCESS;
}

struct result erased_manifest_delete(struct pg *pg, const struct collect_manifest_row *row, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &row->repository);
    pg_add_text(&arguments, row->manifest.digest);
    pg_add_uuid(&arguments, &row->project);
    TRY(pg_run(pg, &erased_manifest_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) == 1 ? SUCCESS : failure(err, ERROR_CONFLICT, "the manifest is gone already, or held");
}

struct result erased_links_delete(struct pg *pg, const struct uuid *repository, size_t *count_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, repository);
    pg_add_int8(&arguments, ERASED_PAGE);
    TRY(pg_run(pg, &erased_links_sql, &arguments, &rows, err));
    *count_out = (size_t)pg_rows_affected(rows);
    return SUCCESS;
}

struct result erased_repository_remove(struct pg *pg, const struct uuid *repository, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, repository);
    return pg_run(pg, &erased_remove_sql, &arguments, &rows, err);
}

struct result erased_project_is_empty(struct pg *pg, const struct uuid *project, bool *is_empty_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, project);
    TRY(pg_run(pg, &erased_project_left_sql, &arguments, &rows, err));
    *is_empty_out = !pg_bool(rows, 0, 0);
    return SUCCESS;
}

struct result erased_project_empty(struct pg *pg, const struct uuid *project, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, project);
    TRY(pg_run(pg, &erased_project_sql, &arguments, &rows, err));
    return pg_bool(rows, 0, 0) ? SUCCESS : failure(err, ERROR_CONFLICT, "something of the project is left");
}
