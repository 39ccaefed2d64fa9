#include "registry/upload/abandoned_store.h"

#include <stdio.h>

#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement abandoned_insert_sql = {
    "abandoned_insert", "INSERT INTO abandoned_object (blob_id, region_id) VALUES ($1, $2)", "uuid text", ""};
static const struct pg_statement abandoned_reserve_sql = {
    "abandoned_reserve",
    "INSERT INTO abandoned_object (blob_id, region_id, abandoned_at) VALUES ($1, $2, now() + interval '1 day')", "uuid text", ""};
static const struct pg_statement abandoned_list_sql = {
    "abandoned_list",
    "SELECT blob_id, region_id FROM abandoned_object WHERE region_id = $1 AND abandoned_at <= now()"
    " ORDER BY abandoned_at, blob_id OFFSET $2 LIMIT $3",
    "text int8 int8", "uuid text"};
static const struct pg_statement abandoned_forget_sql = {
    "abandoned_forget", "DELETE FROM abandoned_object WHERE blob_id = $1", "uuid", ""};
static const struct pg_statement clean_up_lock_sql = {"clean_up_lock", "SELECT pg_try_advisory_lock(7307, 4)", "", "bool"};
static const struct pg_statement clean_up_unlock_sql = {"clean_up_unlock", "SELECT pg_advisory_unlock(7307, 4)", "", "bool"};
static const struct pg_statement *const statements[] = {
    &abandoned_insert_sql, &abandoned_reserve_sql, &abandoned_list_sql, &abandoned_forget_sql, &clean_up_lock_sql, &clean_up_unlock_sql,
};
/* clang-format on */
const struct pg_table abandoned_statements = PG_TABLE(statements);

static struct result abandon(struct pg *pg, const struct pg_statement *statement, const struct uuid *blob, const char *region,
                             struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, blob);
    pg_add_text(&arguments, region);
    return pg_run(pg, statement, &arguments, NULL, err);
}

struct result abandoned_insert(struct pg *pg, const struct uuid *blob, const char *region, struct error *err)
{
    return abandon(pg, &abandoned_insert_sql, blob, region, err);
}

struct result abandoned_reserve(struct pg *pg, const struct uuid *blob, const char *region, struct error *err)
{
    return abandon(pg, &abandoned_reserve_sql, blob, region, err);
}

struct result abandoned_list(struct pg *pg, const struct abandoned_query *query, struct abandoned_object *objects_out,
                             size_t *count_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, query->region);
    pg_add_int8(&arguments, (int64_t)query->skipped);
    pg_add_int8(&arguments, (int64_t)query->capacity);
    TRY(pg_run(pg, &abandoned_list_sql, &arguments, &rows, err));
    const size_t count = pg_rows_count(rows);
    for (size_t i = 0; i < count; i++) {
        objects_out[i].blob = pg_uuid(rows, i, 0);
        (void)snprintf(objects_out[i].region, sizeof objects_out[i].region, "%s", pg_text(rows, i, 1));
    }
    *count_out = count;
    return SUCCESS;
}

struct result abandoned_forget(struct pg *pg, const struct uuid *blob, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, blob);
    return pg_run(pg, &abandoned_forget_sql, &arguments, NULL, err);
}

struct result clean_up_lock(struct pg *pg, bool *is_ours_out, struct error *err)
{
    const struct pg_arguments none = {0};
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, &clean_up_lock_sql, &none, &rows, err));
    *is_ours_out = pg_bool(rows, 0, 0);
    return SUCCESS;
}

struct result clean_up_unlock(struct pg *pg, struct error *err)
{
    const struct pg_arguments none = {0};

    return pg_run(pg, &clean_up_unlock_sql, &none, NULL, err);
}
