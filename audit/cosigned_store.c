#include "audit/cosigned_jobs.h"
#include "audit/cosigned_priv.h"
#include "audit/sequencer_priv.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement cosigned_down_sql = {
    "cosigned_down", "SELECT id, size, note FROM audit_cosigned WHERE (size, id) < ($1, $2) ORDER BY size DESC, id DESC LIMIT 20",
    "int8 int8", "int8 int8 text"};
static const struct pg_statement cosigned_insert_sql = {
    "cosigned_insert", "INSERT INTO audit_cosigned (size, note) VALUES ($1, $2)", "int8 text", ""};
static const struct pg_statement cosigned_end_sql = {"cosigned_end", "SELECT size, last_ts FROM audit_log", "", "int8 int8"};
static const struct pg_statement *const statements[] = {
    &cosigned_down_sql, &cosigned_insert_sql, &cosigned_end_sql,
};
/* clang-format on */
const struct pg_table cosigned_table = PG_TABLE(statements);

struct result cosigned_select_down(struct pg *pg, const struct cosigned_cursor *before, struct pg_rows **rows_out,
                                   struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, before->size);
    pg_add_int8(&arguments, before->id);
    return pg_run(pg, &cosigned_down_sql, &arguments, rows_out, err);
}

struct result cosigned_insert(struct pg *pg, uint64_t size, const char *note, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)size);
    pg_add_text(&arguments, note);
    return pg_run(pg, &cosigned_insert_sql, &arguments, NULL, err);
}

struct result cosigned_check_end(struct pg *pg, uint64_t signed_size, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, &cosigned_end_sql, NULL, &rows, err));
    const uint64_t size = pg_rows_count(rows) == 0 ? 0 : (uint64_t)pg_int8(rows, 0, 0);
    if (size >= signed_size) return SUCCESS;
    return sequencer_refuse_shrunken(size, pg_rows_count(rows) == 0 ? 0 : pg_int8(rows, 0, 1), signed_size, err);
}
