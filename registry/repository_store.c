#include "registry/repository_store.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "registry/project.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement repository_find_sql = {
    "repository_find", "SELECT repository_id FROM repository WHERE project_id = $1 AND name = $2", "uuid text",
    "uuid"};
static const struct pg_statement repository_ensure_sql = {
    "repository_ensure",
    "WITH made AS (INSERT INTO repository (repository_id, project_id, name) SELECT $1, $2, $3"
    " WHERE (SELECT count(*) FROM repository WHERE project_id = $2) < $4"
    " ON CONFLICT (project_id, name) DO NOTHING RETURNING repository_id)"
    " SELECT repository_id FROM made UNION ALL"
    " SELECT repository_id FROM repository WHERE project_id = $2 AND name = $3 LIMIT 1",
    "uuid uuid text int8", "uuid"};
static const struct pg_statement repository_count_sql = {
    "repository_count", "SELECT count(*) FROM repository WHERE project_id = $1", "uuid", "int8"};
static const struct pg_statement repository_list_sql = {
    "repository_list",
    "SELECT full_name FROM repository r WHERE full_name >= $1 AND full_name < $2 AND full_name > $3"
    " AND NOT EXISTS (SELECT FROM project p WHERE p.project_id = r.project_id AND p.deleted_at IS NOT NULL OFFSET 0)"
    " ORDER BY full_name LIMIT $4",
    "text text text int8", "text"};
static const struct pg_statement repository_protects_sql = {
    "repository_protects", "SELECT EXISTS (SELECT FROM unnest($2::text[]) AS n (name) WHERE tag_is_immutable($1, n.name))",
    "uuid text[]", "bool"};
static const struct pg_statement repository_sources_sql = {
    "repository_sources",
    "SELECT r.full_name FROM unnest($2::text[]) AS d (digest) CROSS JOIN LATERAL (SELECT b.blob_id, b.created_at FROM blob b"
    " WHERE b.digest = d.digest AND b.project_id <> $1 AND b.size_bytes >= $3"
    " AND b.created_at < (SELECT min(o.created_at) FROM blob o WHERE o.project_id = $1 AND o.digest = d.digest) ORDER BY b.created_at LIMIT $4) b"
    " JOIN repository_blob l USING (blob_id) JOIN repository r USING (repository_id) WHERE l.is_pushed AND r.deleted_at IS NULL"
    " GROUP BY r.full_name ORDER BY min(b.created_at), min(l.linked_at), r.full_name LIMIT $4",
    "uuid text[] int8 int8", "text"};
static const struct pg_statement *const statements[] = {
    &repository_find_sql, &repository_ensure_sql, &repository_count_sql, &repository_list_sql,
    &repository_protects_sql, &repository_sources_sql,
};
/* clang-format on */
const struct pg_table repository_statements = PG_TABLE(statements);

const char *repository_path(const char *name)
{
    const char *slash = strchr(name, '/');

    if (slash != NULL) slash = strchr(slash + 1, '/');
    return slash == NULL ? "" : slash + 1;
}

struct result repository_find(struct lookup *lookup, const struct uuid *project, const char *path, struct uuid *repository_out,
                              struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, project);
    pg_add_text(&arguments, path);
    TRY(pg_run(lookup_connection(lookup), &repository_find_sql, &arguments, &rows, err));
    *repository_out = pg_rows_count(rows) == 1 ? pg_uuid(rows, 0, 0) : (struct uuid){0};
    return SUCCESS;
}

static struct result why_no_repository(struct pg *pg, const struct uuid *project, unsigned most, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, project);
    TRY(pg_run(pg, &repository_count_sql, &arguments, &rows, err));
    if (pg_int8(rows, 0, 0) < most) return failure(err, ERROR_CONFLICT, "the repository was made meanwhile; try again");
    return failure(
        err, ERROR_DENIED,
        "the project has as many repositories as it may, %u (repositories_per_project): delete some and collect garbage, or ask the"
        " operator for more",
        most);
}

struct result repository_ensure(struct pg *pg, const struct resource *where, unsigned most, struct uuid *repository_out,
                                struct error *err)
{
    const struct uuid fresh = uuid_random();
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    if (!uuid_is_nil(&where->repository)) {
        *repository_out = where->repository;
        return SUCCESS;
    }
    pg_add_uuid(&arguments, &fresh);
    pg_add_uuid(&arguments, &where->project);
    pg_add_text(&arguments, repository_path(where->name));
    pg_add_int8(&arguments, most);
    TRY(pg_run(pg, &repository_ensure_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) != 1) return why_no_repository(pg, &where->project, most, err);
    *repository_out = pg_uuid(rows, 0, 0);
    return SUCCESS;
}

struct result repository_list(const struct permit *permit, struct pg *pg, const struct repository_query *query,
                              struct repository_page **page_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    permit_require(permit, ACTION_CATALOG_LIST, query->where);
    pg_add_text(&arguments, query->from);
    pg_add_text(&arguments, query->until);
    pg_add_text(&arguments, query->last);
    pg_add_int8(&arguments, query->limit);
    TRY(pg_run(pg, &repository_list_sql, &arguments, &rows, err));
    OWNED(repository_page) *page = memory_zeroed(1, sizeof *page);
    if (page == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for names");
    page->count = pg_rows_count(rows);
    page->names = memory_zeroed(page->count + 1, sizeof *page->names);
    if (page->names == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for names");
    for (size_t i = 0; i < page->count; i++) (void)snprintf(page->names[i], sizeof page->names[i], "%s", pg_text(rows, i, 0));
    *page_out = GIVE(page);
    return SUCCESS;
}

void repository_page_free(struct repository_page *page)
{
    if (page == NULL) return;
    free(page->names);
    free(page);
}

struct result repository_protects(struct lookup *lookup, const struct uuid *repository, const struct bytes *tags, size_t count,
                                  bool *protects_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, repository);
    pg_add_text_array(&arguments, tags, count);
    TRY(pg_run(lookup_connection(lookup), &repository_protects_sql, &arguments, &rows, err));
    *protects_out = pg_bool(rows, 0, 0);
    return SUCCESS;
}

struct result repository_sources(struct lookup *lookup, const struct uuid *project, const struct bytes *digests, size_t count,
                                 struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, project);
    pg_add_text_array(&arguments, digests, count);
    pg_add_int8(&arguments, PROMOTION_BYTES_MIN);
    pg_add_int8(&arguments, PROMOTION_SOURCES_MAX);
    return pg_run(lookup_connection(lookup), &repository_sources_sql, &arguments, rows_out, err);
}
