#include "audit/search_store_priv.h"

#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement search_post_up_sql = {
    "search_post_up", "SELECT block, list FROM audit_post WHERE key = $1 AND block >= $2 ORDER BY block LIMIT $3",
    "int8 int8 int8", "int8 bytea"};
static const struct pg_statement search_post_down_sql = {
    "search_post_down", "SELECT block, list FROM audit_post WHERE key = $1 AND block <= $2 ORDER BY block DESC LIMIT $3",
    "int8 int8 int8", "int8 bytea"};
/* Each step goes to the next block by the index: a block may have rows of many subjects. */
#define BLIND_BLOCKS(compare, order)                                                                                  \
    "WITH RECURSIVE found (block, n) AS ("                                                                            \
    "(SELECT block, 1::int8 FROM audit_blind WHERE key = $1 AND block " compare "= $2 ORDER BY block " order " LIMIT 1)" \
    " UNION ALL SELECT (SELECT b.block FROM audit_blind b WHERE b.key = $1 AND b.block " compare " f.block"           \
    " ORDER BY b.block " order " LIMIT 1), f.n + 1 FROM found f WHERE f.block IS NOT NULL AND f.n < $3)"              \
    " SELECT block FROM found WHERE block IS NOT NULL"
static const struct pg_statement search_blind_up_sql = {
    "search_blind_up", BLIND_BLOCKS(">", "ASC"), "int8 int8 int8", "int8"};
static const struct pg_statement search_blind_down_sql = {
    "search_blind_down", BLIND_BLOCKS("<", "DESC"), "int8 int8 int8", "int8"};
static const struct pg_statement search_narrow_up_sql = {
    "search_narrow_up", "SELECT block, list, subject FROM audit_blind WHERE key = $1 AND block >= $2 ORDER BY block, subject LIMIT $3",
    "int8 int8 int8", "int8 bytea int8"};
static const struct pg_statement search_narrow_down_sql = {
    "search_narrow_down", "SELECT block, list, subject FROM audit_blind WHERE key = $1 AND block <= $2 ORDER BY block DESC, subject DESC LIMIT $3",
    "int8 int8 int8", "int8 bytea int8"};
static const struct pg_statement search_blind_lists_sql = {
    "search_blind_lists", "SELECT list FROM audit_blind WHERE key = $1 AND block = $2", "int8 int8", "bytea"};
static const struct pg_statement search_blind_pairs_sql = {
    "search_blind_pairs", "SELECT b.block, b.list FROM unnest($2::int8[], $3::int8[]) AS s (block, subject)"
                          " JOIN audit_blind b ON b.key = $1 AND b.block = s.block AND b.subject = s.subject", "int8 int8[] int8[]", "int8 bytea"};
static const struct pg_statement search_words_sql = {
    "search_words",
    "SELECT w.block, w.list, o.list FROM audit_post w JOIN audit_post o ON o.key = $2 AND o.block = w.block WHERE w.key = ANY ($1)"
    " ORDER BY w.block LIMIT 8192", "int8[] int8", "int8 bytea bytea"};
static const struct pg_statement search_known_sql = {
    "search_known", "SELECT least(s.indexed, l.size), l.size FROM audit_search s, audit_log l", "", "int8 int8"};
static const struct pg_statement search_time_sql = {
    "search_time", "SELECT ts FROM audit_entry WHERE seq = $1", "int8", "int8"};
static const struct pg_statement search_issuers_sql = {
    "search_issuers", "SELECT url FROM trusted_issuer UNION SELECT issuer FROM binding WHERE subject = $1 AND issuer IS NOT NULL LIMIT $2",
    "text int8", "text"};
static const struct pg_statement *const statements[] = {
    &search_post_up_sql, &search_post_down_sql, &search_blind_up_sql, &search_blind_down_sql, &search_narrow_up_sql,
    &search_narrow_down_sql, &search_blind_lists_sql, &search_blind_pairs_sql, &search_words_sql, &search_known_sql, &search_time_sql, &search_issuers_sql,
};
/* clang-format on */
const struct pg_table audit_search_table = PG_TABLE(statements);

struct result search_select_blocks(struct pg *pg, const struct posting_seek *seek, struct pg_rows **rows_out, struct error *err)
{
    static const struct pg_statement *const walks[POSTING_WIDE + 1][2] = {
        [POSTING_OPEN] = {&search_post_down_sql, &search_post_up_sql},
        [POSTING_NARROW] = {&search_narrow_down_sql, &search_narrow_up_sql},
        [POSTING_WIDE] = {&search_blind_down_sql, &search_blind_up_sql}};
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, seek->key.key);
    pg_add_int8(&arguments, (int64_t)seek->block);
    pg_add_int8(&arguments, (int64_t)seek->most);
    return pg_run(pg, walks[seek->key.kind][seek->ascending ? 1 : 0], &arguments, rows_out, err);
}

struct result search_select_blind(struct pg *pg, int64_t key, uint64_t block, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, key);
    pg_add_int8(&arguments, (int64_t)block);
    return pg_run(pg, &search_blind_lists_sql, &arguments, rows_out, err);
}

struct result search_select_pairs(struct pg *pg, int64_t key, const struct posting_pairs *pairs, struct pg_rows **rows_out,
                                  struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, key);
    pg_add_int8_array(&arguments, pairs->blocks, pairs->count);
    pg_add_int8_array(&arguments, pairs->subjects, pairs->count);
    return pg_run(pg, &search_blind_pairs_sql, &arguments, rows_out, err);
}

struct result search_select_words(struct pg *pg, const int64_t *keys, size_t count, int64_t other, struct pg_rows **rows_out,
                                  struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8_array(&arguments, keys, count);
    pg_add_int8(&arguments, other);
    return pg_run(pg, &search_words_sql, &arguments, rows_out, err);
}

struct result search_select_known(struct pg *pg, uint64_t *known_out, uint64_t *size_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, &search_known_sql, NULL, &rows, err));
    if (pg_rows_count(rows) != 1) return failure(err, ERROR_CORRUPT, "the state of the index of searches is missing");
    *known_out = (uint64_t)pg_int8(rows, 0, 0);
    *size_out = (uint64_t)pg_int8(rows, 0, 1);
    return SUCCESS;
}

struct result search_select_time(struct pg *pg, uint64_t sequence, int64_t *wall_ms_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, (int64_t)sequence);
    TRY(pg_run(pg, &search_time_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) != 1) return failure(err, ERROR_NOT_FOUND, "there is no such event");
    *wall_ms_out = pg_int8(rows, 0, 0);
    return SUCCESS;
}

struct result search_select_issuers(struct pg *pg, const char *name, size_t most, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_text(&arguments, name);
    pg_add_int8(&arguments, (int64_t)most);
    return pg_run(pg, &search_issuers_sql, &arguments, rows_out, err);
}
