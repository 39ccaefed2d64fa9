#include "audit/log_key_priv.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement log_key_find_sql = {
    "log_key_find", "SELECT size FROM audit_log_key WHERE size = $1", "int8", "int8"};
static const struct pg_statement log_key_insert_sql = {
    "log_key_insert", "INSERT INTO audit_log_key (size, public_key) VALUES ($1, $2) ON CONFLICT DO NOTHING", "int8 bytea", ""};
static const struct pg_statement *const statements[] = {
    &log_key_find_sql, &log_key_insert_sql,
};
/* clang-format on */
const struct pg_table log_key_table = PG_TABLE(statements);

struct result log_key_is_recorded(struct pg *pg, uint64_t size, bool *is_recorded_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, (int64_t)size);
    TRY(pg_run(pg, &log_key_find_sql, &arguments, &rows, err));
    *is_recorded_out = pg_rows_count(rows) > 0;
    return SUCCESS;
}

struct result log_key_insert(struct pg *pg, uint64_t size, struct bytes public_key, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)size);
    pg_add_bytes(&arguments, public_key);
    return pg_run(pg, &log_key_insert_sql, &arguments, NULL, err);
}
