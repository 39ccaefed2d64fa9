#include "registry/upload/upload_admin.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "registry/upload/abandoned_store.h"
#include "registry/upload/upload_priv.h"
#include "storage/pg_table.h"

/* clang-format off */
#define COLUMNS                                                                                                    \
    "SELECT u.upload_id, coalesce(r.deleted_name, r.full_name), u.region_id, u.issuer, u.subject, u.offset_bytes, u.reserved_bytes, u.created_at," \
    " u.moved_at, u.expires_at FROM upload u JOIN repository r USING (repository_id) WHERE "
#define PAGE  " AND u.upload_id > $2 AND u.expires_at > now() ORDER BY u.upload_id LIMIT $3"
#define TYPES "uuid text text text text int8 int8 timestamptz timestamptz timestamptz"

static const struct pg_statement upload_list_project_sql = {
    "upload_list_project", COLUMNS "u.project_id = $1" PAGE, "uuid uuid int8", TYPES};
static const struct pg_statement upload_list_organisation_sql = {
    "upload_list_organisation", COLUMNS "u.organisation_id = $1" PAGE, "uuid uuid int8", TYPES};
static const struct pg_statement upload_end_sql = {
    "upload_end",
    "WITH gone AS (DELETE FROM upload WHERE upload_id = $1 AND project_id = $2 RETURNING blob_id, region_id, project_id, reserved_bytes),"
    UPLOAD_RELEASE " INSERT INTO abandoned_object (blob_id, region_id) SELECT blob_id, region_id FROM gone RETURNING blob_id, region_id",
    "uuid uuid", "uuid text"};
static const struct pg_statement *const statements[] = {
    &upload_list_project_sql, &upload_list_organisation_sql, &upload_end_sql,
};
/* clang-format on */
const struct pg_table upload_admin_statements = PG_TABLE(statements);

struct upload_page {
    struct pg_rows *rows;
};

static bool is_of_organisation(const struct resource *where)
{
    return where->kind == RESOURCE_ORGANISATION;
}

struct result upload_list(const struct permit *permit, struct pg *pg, const struct upload_query *query,
                          struct upload_page **page_out, struct error *err)
{
    const struct resource *where = query->where;
    struct pg_arguments arguments = {0};

    permit_require(permit, ACTION_UPLOAD_LIST, where);
    OWNED(upload_page) *page = memory_zeroed(1, sizeof *page);
    if (page == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list of uploads");
    pg_add_uuid(&arguments, is_of_organisation(where) ? &where->organisation : &where->project);
    pg_add_uuid(&arguments, &query->after);
    pg_add_int8(&arguments, (int64_t)query->limit);
    TRY(pg_run(pg, is_of_organisation(where) ? &upload_list_organisation_sql : &upload_list_project_sql, &arguments, &page->rows,
               err));
    *page_out = GIVE(page);
    return SUCCESS;
}

size_t upload_page_count(const struct upload_page *page)
{
    return pg_rows_count(page->rows);
}

struct listed_upload upload_page_row(const struct upload_page *page, size_t index)
{
    const struct pg_rows *rows = page->rows;

    return (struct listed_upload){.upload = pg_uuid(rows, index, 0),
                                  .repository = pg_text(rows, index, 1),
                                  .region = pg_text(rows, index, 2),
                                  .issuer = pg_text(rows, index, 3),
                                  .subject = pg_text(rows, index, 4),
                                  .bytes = (uint64_t)pg_int8(rows, index, 5),
                                  .reserved = (uint64_t)pg_int8(rows, index, 6),
                                  .begun_ms = pg_time_ms(rows, index, 7),
                                  .moved_ms = pg_time_ms(rows, index, 8),
                                  .expires_ms = pg_time_ms(rows, index, 9)};
}

void upload_page_free(struct upload_page *page)
{
    if (page == NULL) return;
    pg_rows_free(page->rows);
    free(page);
}

static struct result run_end(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    struct upload_end *end = (struct upload_end *)(void *)change; /* its first member */
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    permit_require(permit, ACTION_UPLOAD_END, &end->where);
    pg_add_uuid(&arguments, &end->upload);
    pg_add_uuid(&arguments, &end->where.project);
    TRY(pg_run(pg, &upload_end_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "the project has no such upload, or it has ended");
    end->blob = pg_uuid(rows, 0, 0);
    (void)snprintf(end->region, sizeof end->region, "%s", pg_text(rows, 0, 1));
    return SUCCESS;
}

void upload_end_prepare(const struct resource *where, const struct uuid *upload, struct upload_end *end_out)
{
    *end_out = (struct upload_end){
        .change = {.run = run_end, .invalidates = CHANGE_INVALIDATES_NOTHING}, .where = *where, .upload = *upload};
}

void upload_end_finish(const struct permit *permit, struct registry *registry, struct pg *pg, const struct upload_end *end)
{
    struct abandoned_object object = {.blob = end->blob};

    permit_require(permit, ACTION_UPLOAD_END, &end->where);
    upload_table_end(registry->uploads, &end->upload);
    memcpy(object.region, end->region, sizeof object.region);
    (void)upload_sweep(registry, pg, &object);
}
