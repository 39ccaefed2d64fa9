#include "audit/subject_rewrap_priv.h"

#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement rewrap_subjects_sql = {
    "rewrap_subjects", "SELECT id, subject, key_version, wrapped_key FROM audit_subject WHERE key_version < $1 AND id > $2 ORDER BY id LIMIT $3",
    "int4 int8 int8", "int8 bytea int4 bytea"};
static const struct pg_statement rewrap_replace_subjects_sql = {
    "rewrap_replace_subjects", "SELECT changed FROM audit_rewrap_subjects($1, $2, $3, $4) AS changed", "bytea[] bytea[] bytea[] int4", "int8"};
static const struct pg_statement rewrap_renew_blind_sql = {
    "rewrap_renew_blind", "SELECT gone FROM audit_renew_blind($1, $2) AS gone", "bytea[] int4", "int8"};
static const struct pg_statement rewrap_count_subjects_sql = {
    "rewrap_count_subjects",
    "SELECT (SELECT count(*) FROM audit_subject WHERE key_version < $1), coalesce((SELECT ts FROM audit_entry ORDER BY seq LIMIT 1), 0)",
    "int4", "int8 int8"};
static const struct pg_statement *const statements[] = {
    &rewrap_subjects_sql, &rewrap_replace_subjects_sql, &rewrap_renew_blind_sql, &rewrap_count_subjects_sql,
};
/* clang-format on */
const struct pg_table audit_rewrap_table = PG_TABLE(statements);

struct result rewrap_select_subjects(struct pg *pg, uint32_t epoch, int64_t after, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int4(&arguments, (int32_t)epoch);
    pg_add_int8(&arguments, after);
    pg_add_int8(&arguments, SUBJECT_REWRAP_BATCH);
    return pg_run(pg, &rewrap_subjects_sql, &arguments, rows_out, err);
}

struct result rewrap_replace_subjects(struct pg *pg, const struct rewrapped_subjects *keys, int64_t *changed_out,
                                      struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_bytes_array(&arguments, keys->subjects, keys->count);
    pg_add_bytes_array(&arguments, keys->old, keys->count);
    pg_add_bytes_array(&arguments, keys->fresh, keys->count);
    pg_add_int4(&arguments, (int32_t)keys->epoch);
    TRY(pg_run(pg, &rewrap_replace_subjects_sql, &arguments, &rows, err));
    *changed_out = pg_int8(rows, 0, 0);
    return SUCCESS;
}

struct result rewrap_renew_blind(struct pg *pg, const struct bytes *subjects, size_t count, uint32_t epoch, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_bytes_array(&arguments, subjects, count);
    pg_add_int4(&arguments, (int32_t)epoch);
    return pg_run(pg, &rewrap_renew_blind_sql, &arguments, &rows, err);
}

struct result rewrap_count_subjects(struct pg *pg, uint32_t epoch, int64_t *old_out, int64_t *first_ms_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int4(&arguments, (int32_t)epoch);
    TRY(pg_run(pg, &rewrap_count_subjects_sql, &arguments, &rows, err));
    *old_out = pg_int8(rows, 0, 0);
    *first_ms_out = pg_int8(rows, 0, 1);
    return SUCCESS;
}
