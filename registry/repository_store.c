#include "registry/repository_store.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "registry/project.h"

#define NAME        "(o.name || '/' || p.name || '/' || r.name)"
#define WITH_SCOPES "repository r JOIN project p USING (project_id) JOIN organisation o USING (organisation_id)"

static const struct pg_statement statements[] = {
    {"repository_find", "SELECT repository_id FROM repository WHERE project_id = $1 AND name = $2", "uuid text",
     "uuid"},
    {"repository_ensure",
     "WITH made AS (INSERT INTO repository (repository_id, project_id, name) VALUES ($1, $2, $3)"
     " ON CONFLICT (project_id, name) DO NOTHING RETURNING repository_id)"
     " SELECT repository_id FROM made UNION ALL"
     " SELECT repository_id FROM repository WHERE project_id = $2 AND name = $3 LIMIT 1",
     "uuid uuid text", "uuid"},
    {"repository_list",
     "SELECT " NAME ", r.repository_id FROM " WITH_SCOPES " WHERE " NAME " COLLATE \"C\" > coalesce((SELECT " NAME
     " FROM " WITH_SCOPES " WHERE r.repository_id = $3), $1) ORDER BY " NAME " COLLATE \"C\" LIMIT $2",
     "text int8 uuid", "text uuid"},
};
const struct pg_table repository_statements = PG_TABLE(statements);

const char *repository_path(const char *name)
{
    const char *slash = strchr(name, '/');

    if (slash != NULL) slash = strchr(slash + 1, '/');
    return slash == NULL ? "" : slash + 1;
}

struct result repository_find(struct pg *pg, const struct uuid *project, const char *path,
                              struct uuid *repository_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, project);
    pg_add_text(&arguments, path);
    TRY(pg_run(pg, "repository_find", &arguments, &rows, err));
    *repository_out = pg_rows_count(rows) == 1 ? pg_uuid(rows, 0, 0) : (struct uuid){0};
    return SUCCESS;
}

struct result repository_ensure(struct pg *pg, const struct resource *where, struct uuid *repository_out,
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
    TRY(pg_run(pg, "repository_ensure", &arguments, &rows, err));
    if (pg_rows_count(rows) != 1) return failure(err, ERROR_CONFLICT, "the repository was made meanwhile; try again");
    *repository_out = pg_uuid(rows, 0, 0);
    return SUCCESS;
}

struct result repository_list(struct pg *pg, const struct repository_query *query, struct repository_page **page_out,
                              struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    permit_require(query->permit, ACTION_CATALOG_LIST, query->where);
    pg_add_text(&arguments, query->last);
    pg_add_int8(&arguments, (int64_t)query->limit + 1); /* one more tells whether another page follows */
    pg_add_uuid(&arguments, uuid_is_nil(&query->last_id) ? NULL : &query->last_id);
    TRY(pg_run(pg, "repository_list", &arguments, &rows, err));
    const size_t found = pg_rows_count(rows);
    OWNED(repository_page) *page = memory_zeroed(1, sizeof *page);
    if (page == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for names");
    page->has_more = found > query->limit;
    page->count = page->has_more ? query->limit : found;
    page->entries = memory_zeroed(page->count + 1, sizeof *page->entries);
    if (page->entries == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for names");
    for (size_t i = 0; i < page->count; i++) {
        (void)snprintf(page->entries[i].name, sizeof page->entries[i].name, "%s", pg_text(rows, i, 0));
        page->entries[i].id = pg_uuid(rows, i, 1);
    }
    *page_out = GIVE(page);
    return SUCCESS;
}

void repository_page_free(struct repository_page *page)
{
    if (page == NULL) return;
    free(page->entries);
    free(page);
}
