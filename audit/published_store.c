#include "audit/published_priv.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement published_entries_sql = {
    "published_entries", "SELECT leaf, seq FROM audit_entry WHERE seq >= $1 AND seq < $2 ORDER BY seq", "int8 int8", "bytea int8"};
static const struct pg_statement published_of_size_sql = {
    "published_of_size", "SELECT id, note FROM audit_checkpoint WHERE size = $1 AND id > $2 ORDER BY id LIMIT 100", "int8 int8",
    "int8 text"};
/* The table gives the ids, so nobody who may insert can choose a place in this order. */
static const struct pg_statement published_up_sql = {
    "published_up", "SELECT id, note, signed_at FROM audit_checkpoint WHERE id > $1 ORDER BY id LIMIT $2", "int8 int8",
    "int8 text timestamptz"};
static const struct pg_statement published_down_sql = {
    "published_down", "SELECT id, note, signed_at FROM audit_checkpoint WHERE id < $1 ORDER BY id DESC LIMIT $2", "int8 int8",
    "int8 text timestamptz"};
static const struct pg_statement *const statements[] = {
    &published_entries_sql, &published_of_size_sql, &published_up_sql, &published_down_sql,
};
/* clang-format on */
const struct pg_table published_table = PG_TABLE(statements);

struct result published_select_entries(struct pg *pg, uint64_t first, size_t count, struct pg_rows **rows_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)first);
    pg_add_int8(&arguments, (int64_t)(first + count));
    TRY(pg_run(pg, &published_entries_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) != count)
        return failure(err, ERROR_FORKED, "the log has %zu of %zu entries that it must have", pg_rows_count(rows), count);
    *rows_out = GIVE(rows);
    return SUCCESS;
}

struct result published_select_of_size(struct pg *pg, uint64_t size, int64_t cursor, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)size);
    pg_add_int8(&arguments, cursor);
    return pg_run(pg, &published_of_size_sql, &arguments, rows_out, err);
}

struct result published_select_page(struct pg *pg, const struct published_span *span, struct pg_rows **rows_out,
                                    struct error *err)
{
    struct pg_arguments arguments = {0};
    const int64_t start = span->ascending ? INT64_MIN : INT64_MAX;

    pg_add_int8(&arguments, span->has_cursor ? span->cursor : start);
    pg_add_int8(&arguments, (int64_t)span->limit);
    return pg_run(pg, span->ascending ? &published_up_sql : &published_down_sql, &arguments, rows_out, err);
}
