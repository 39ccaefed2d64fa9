#include "audit/published_priv.h"
#include "storage/pg_table.h"

/* The last of this size that was stored. It counts only with a quorum, as each row does. */
#define PUBLISHED_COSIGNED "(SELECT k.note FROM audit_cosigned k WHERE k.size = c.size ORDER BY k.id DESC LIMIT 1)"

/* clang-format off */
static const struct pg_statement published_entries_sql = {
    "published_entries", "SELECT leaf, seq FROM audit_entry WHERE seq >= $1 AND seq < $2 ORDER BY seq", "int8 int8", "bytea int8"};
static const struct pg_statement published_of_size_sql = {
    "published_of_size", "SELECT id, note FROM audit_checkpoint WHERE size = $1 AND id > $2 ORDER BY id LIMIT 100", "int8 int8",
    "int8 text"};
/* The table gives the ids, so nobody who may insert can choose a place in this order. */
static const struct pg_statement published_up_sql = {
    "published_up", "SELECT c.id, c.note, c.signed_at, " PUBLISHED_COSIGNED " FROM audit_checkpoint c"
                    " WHERE c.id > $1 AND c.id BETWEEN $3 AND $4 AND c.size > $5 ORDER BY c.id LIMIT $2", "int8 int8 int8 int8 int8",
    "int8 text timestamptz text"};
static const struct pg_statement published_down_sql = {
    "published_down", "SELECT c.id, c.note, c.signed_at, " PUBLISHED_COSIGNED " FROM audit_checkpoint c"
                      " WHERE c.id < $1 AND c.id BETWEEN $3 AND $4 AND c.size > $5 ORDER BY c.id DESC LIMIT $2", "int8 int8 int8 int8 int8",
    "int8 text timestamptz text"};
static const struct pg_statement published_larger_sql = {
    "published_larger", "SELECT size, id, note FROM audit_checkpoint WHERE (size, id) > ($1, $2) ORDER BY size, id LIMIT 100", "int8 int8",
    "int8 int8 text"};
static const struct pg_statement published_since_sql = {
    "published_since", "SELECT id FROM audit_checkpoint WHERE signed_at >= $1 ORDER BY signed_at, id LIMIT 1", "timestamptz", "int8"};
static const struct pg_statement published_until_sql = {
    "published_until", "SELECT id FROM audit_checkpoint WHERE signed_at < $1 ORDER BY signed_at DESC, id DESC LIMIT 1", "timestamptz", "int8"};
static const struct pg_statement *const statements[] = {
    &published_entries_sql, &published_of_size_sql, &published_up_sql, &published_down_sql,
    &published_larger_sql, &published_since_sql, &published_until_sql,
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
    pg_add_int8(&arguments, span->bounds.low);
    pg_add_int8(&arguments, span->bounds.high);
    pg_add_int8(&arguments, span->bounds.above);
    return pg_run(pg, span->ascending ? &published_up_sql : &published_down_sql, &arguments, rows_out, err);
}

struct result published_select_larger(struct pg *pg, const struct published_place *after, struct pg_rows **rows_out,
                                      struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, after->size);
    pg_add_int8(&arguments, after->id);
    return pg_run(pg, &published_larger_sql, &arguments, rows_out, err);
}

struct result published_id_at(struct pg *pg, int64_t time_ms, bool is_end, int64_t none, int64_t *id_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_time(&arguments, time_ms);
    TRY(pg_run(pg, is_end ? &published_until_sql : &published_since_sql, &arguments, &rows, err));
    *id_out = pg_rows_count(rows) == 0 ? none : pg_int8(rows, 0, 0);
    return SUCCESS;
}
