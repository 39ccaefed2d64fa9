#include "audit/search_store_priv.h"

#include "storage/pg_table.h"

/* clang-format off */
/* The index may be behind the log, so its transactions need not be on the disk before the next one: a crash takes rows and number together. */
static const struct pg_statement search_index_lock_sql = {
    "search_index_lock", "WITH quick AS (SELECT set_config('synchronous_commit', 'off', true))"
                         " SELECT pg_try_advisory_xact_lock(7307, 7) FROM quick", "", "bool"};
static const struct pg_statement search_index_state_sql = {
    "search_index_state", "SELECT s.indexed, l.size FROM audit_search s, audit_log l", "", "int8 int8"};
static const struct pg_statement search_index_advance_sql = {
    "search_index_advance", "UPDATE audit_search SET indexed = $1", "int8", ""};
static const struct pg_statement search_index_select_sql = {
    "search_index_select", "SELECT p.key, p.list FROM unnest($2::int8[]) AS k (key) JOIN audit_post p ON p.key = k.key AND p.block = $1"
                           " ORDER BY p.key", "int8 int8[]", "int8 bytea"};
static const struct pg_statement search_index_select_blind_sql = {
    "search_index_select_blind", "SELECT b.key, s.subject, b.list FROM unnest($2::int8[]) AS k (key)"
                                 " JOIN audit_blind b ON b.key = k.key AND b.block = $1 JOIN audit_subject s ON s.id = b.subject"
                                 " ORDER BY b.key, s.subject", "int8 int8[]", "int8 bytea bytea"};
static const struct pg_statement search_index_put_sql = {
    "search_index_put", "INSERT INTO audit_post (key, block, list) SELECT p.key, $1::int8, p.list FROM unnest($2::int8[], $3::bytea[]) AS p (key, list)"
                        " ON CONFLICT (key, block) DO UPDATE SET list = excluded.list", "int8 int8[] bytea[]", ""};
static const struct pg_statement search_index_put_blind_sql = {
    "search_index_put_blind", "INSERT INTO audit_blind (key, block, subject, list) SELECT p.key, $1::int8, s.id, p.list"
                              " FROM unnest($2::int8[], $3::bytea[], $4::bytea[]) AS p (key, subject, list)"
                              " JOIN audit_subject s ON s.subject = p.subject"
                              " ON CONFLICT (key, block, subject) DO UPDATE SET list = excluded.list", "int8 int8[] bytea[] bytea[]", ""};
static const struct pg_statement *const statements[] = {
    &search_index_lock_sql, &search_index_state_sql, &search_index_advance_sql, &search_index_select_sql,
    &search_index_select_blind_sql, &search_index_put_sql, &search_index_put_blind_sql,
};
/* clang-format on */
const struct pg_table audit_search_index_table = PG_TABLE(statements);

struct result search_index_begin(struct pg *pg, bool *is_mine_out, uint64_t *indexed_out, uint64_t *size_out, struct error *err)
{
    OWNED(pg_rows) *lock = NULL, *state = NULL;

    TRY(pg_run(pg, &search_index_lock_sql, NULL, &lock, err));
    TRY(pg_run(pg, &search_index_state_sql, NULL, &state, err));
    if (pg_rows_count(state) != 1) return failure(err, ERROR_CORRUPT, "the state of the index of searches is missing");
    *is_mine_out = pg_bool(lock, 0, 0);
    *indexed_out = (uint64_t)pg_int8(state, 0, 0);
    *size_out = (uint64_t)pg_int8(state, 0, 1);
    return SUCCESS;
}

struct result search_index_advance(struct pg *pg, uint64_t indexed, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)indexed);
    return pg_run(pg, &search_index_advance_sql, &arguments, NULL, err);
}

static struct result select_lists(struct pg *pg, const struct pg_statement *statement, const struct search_rows *wanted,
                                  struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)wanted->block);
    pg_add_int8_array(&arguments, wanted->keys, wanted->count);
    return pg_run(pg, statement, &arguments, rows_out, err);
}

struct result search_index_select(struct pg *pg, uint64_t block, const int64_t *keys, size_t count, struct pg_rows **rows_out,
                                  struct error *err)
{
    const struct search_rows wanted = {.block = block, .count = count, .keys = keys};

    return select_lists(pg, &search_index_select_sql, &wanted, rows_out, err);
}

struct result search_index_select_blind(struct pg *pg, uint64_t block, const int64_t *keys, size_t count,
                                        struct pg_rows **rows_out, struct error *err)
{
    const struct search_rows wanted = {.block = block, .count = count, .keys = keys};

    return select_lists(pg, &search_index_select_blind_sql, &wanted, rows_out, err);
}

struct result search_index_put(struct pg *pg, const struct search_rows *rows, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)rows->block);
    pg_add_int8_array(&arguments, rows->keys, rows->count);
    pg_add_bytes_array(&arguments, rows->lists, rows->count);
    return pg_run(pg, &search_index_put_sql, &arguments, NULL, err);
}

struct result search_index_put_blind(struct pg *pg, const struct search_rows *rows, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)rows->block);
    pg_add_int8_array(&arguments, rows->keys, rows->count);
    pg_add_bytes_array(&arguments, rows->subjects, rows->count);
    pg_add_bytes_array(&arguments, rows->lists, rows->count);
    return pg_run(pg, &search_index_put_blind_sql, &arguments, NULL, err);
}
