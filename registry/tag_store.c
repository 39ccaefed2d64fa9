#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "registry/stored_manifest_store.h"
#include "registry/tag.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement tag_list_sql = {
    "tag_list", "SELECT name FROM tag WHERE repository_id = $1 AND name > $2 ORDER BY name LIMIT $3",
    "uuid text int8", "text"};
static const struct pg_statement tag_names_sql = {
    "tag_names", "SELECT manifest_digest FROM tag WHERE repository_id = $1 AND name = $2", "uuid text", "text"};
static const struct pg_statement tag_delete_sql = {
    "tag_delete", "DELETE FROM tag WHERE repository_id = $1 AND name = $2 AND NOT tag_is_immutable($1, name)", "uuid text", ""};
static const struct pg_statement tag_is_there_sql = {
    "tag_is_there", "SELECT EXISTS (SELECT FROM tag WHERE repository_id = $1 AND name = $2)", "uuid text", "bool"};
static const struct pg_statement *const statements[] = {
    &tag_list_sql, &tag_names_sql, &tag_delete_sql, &tag_is_there_sql,
};
/* clang-format on */
const struct pg_table tag_statements = PG_TABLE(statements);

struct result tag_list(const struct permit *permit, struct pg *pg, const struct tag_query *query, struct tag_page **page_out,
                       struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    permit_require(permit, ACTION_TAG_LIST, query->where);
    pg_add_uuid(&arguments, &query->where->repository);
    pg_add_text(&arguments, query->last);
    pg_add_int8(&arguments, (int64_t)query->limit + 1); /* one row more shows whether another page follows */
    TRY(pg_run(pg, &tag_list_sql, &arguments, &rows, err));
    const size_t found = pg_rows_count(rows);
    OWNED(tag_page) *page = memory_zeroed(1, sizeof *page);
    if (page == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for tags");
    page->has_more = found > query->limit;
    page->count = page->has_more ? query->limit : found;
    page->names = memory_zeroed(page->count + 1, sizeof *page->names);
    if (page->names == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for tags");
    for (size_t i = 0; i < page->count; i++) (void)snprintf(page->names[i], sizeof page->names[i], "%s", pg_text(rows, i, 0));
    *page_out = GIVE(page);
    return SUCCESS;
}

struct result tag_stands_for(struct lookup *lookup, const struct uuid *repository, const char *name,
                             char digest_out[DIGEST_TEXT_SIZE], struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, repository);
    pg_add_text(&arguments, name);
    TRY(pg_run(lookup_connection(lookup), &tag_names_sql, &arguments, &rows, err));
    (void)snprintf(digest_out, DIGEST_TEXT_SIZE, "%s", pg_rows_count(rows) == 0 ? "" : pg_text(rows, 0, 0));
    return SUCCESS;
}

void tag_page_free(struct tag_page *page)
{
    if (page == NULL) return;
    free(page->names);
    free(page);
}

static struct result run_delete(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct tag_delete *deletion = (const struct tag_delete *)(const void *)change; /* its first member */
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL, *there = NULL;

    permit_require(permit, ACTION_TAG_DELETE, &deletion->where);
    TRY(manifest_condition_check(pg, &deletion->where.repository, deletion->condition, true, err));
    pg_add_uuid(&arguments, &deletion->where.repository);
    pg_add_text(&arguments, deletion->name);
    TRY(pg_run(pg, &tag_delete_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 1) return SUCCESS;
    TRY(pg_run(pg, &tag_is_there_sql, &arguments, &there, err));
    if (pg_bool(there, 0, 0))
        return failure(err, ERROR_DENIED, "the tag can't be deleted: the project's rules make it immutable");
    return failure(err, ERROR_NOT_FOUND, "this repository has no such tag");
}

void tag_delete_prepare(const struct resource *where, const char *name, struct tag_delete *delete_out)
{
    *delete_out = (struct tag_delete){
        .where = *where,
        .change = {.run = run_delete, .invalidates = CHANGE_INVALIDATES_REPOSITORY, .repository = where->repository}};
    (void)snprintf(delete_out->name, sizeof delete_out->name, "%s", name);
}
