#include "audit/log_check_priv.h"

#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement check_entries_sql = {
    "check_entries",
    "SELECT seq, ts, leaf, leaf_hash, action, outcome FROM audit_entry WHERE seq >= $1 AND seq < $2 ORDER BY seq", "int8 int8",
    "int8 int8 bytea bytea text text"};
/* The runs of a key do not overlap, so only the first run that ends at or after a number can hold it. */
static const struct pg_statement check_keys_sql = {
    "check_keys",
    "SELECT w.seq FROM unnest($1::bytea[], $2::int8[], $3::int8[]) AS w (key, seq, n) WHERE NOT EXISTS (SELECT FROM"
    " (SELECT r.n, r.seqs FROM audit_run r WHERE r.key = w.key AND r.last >= w.seq ORDER BY r.last LIMIT 1) AS f"
    " WHERE f.n - cardinality(f.seqs) + array_position(f.seqs, w.seq) = w.n) LIMIT 1",
    "bytea[] int8[] int8[]", "int8"};
static const struct pg_statement check_tile_sql = {
    "check_tile", "SELECT hashes, root FROM audit_tile WHERE level = $1 AND idx = $2", "int4 int8", "bytea bytea"};
static const struct pg_statement check_runs_sql = {
    "check_runs",
    "SELECT r.key, r.last, r.n, e.leaf, r.n - cardinality(r.seqs) = coalesce(p.n, 0) AND r.seqs[cardinality(r.seqs)] = r.last"
    " AND r.seqs[1] > coalesce(p.last, -1) AND r.last < (SELECT size FROM audit_log)"
    " FROM (SELECT * FROM audit_run WHERE (key, last) > ($1, $2) AND (last < $3 OR last >= (SELECT size FROM audit_log))"
    " ORDER BY key, last LIMIT 64) AS r"
    " LEFT JOIN LATERAL (SELECT b.n, b.last FROM audit_run b WHERE b.key = r.key AND b.last < r.last"
    " ORDER BY b.last DESC LIMIT 1) AS p ON true"
    " LEFT JOIN audit_entry e ON e.seq = r.last ORDER BY r.key, r.last",
    "bytea int8 int8", "bytea int8 int8 bytea bool"};
static const struct pg_statement check_notes_sql = {
    "check_notes",
    "SELECT size, CASE WHEN octet_length(note) <= 2048 THEN note ELSE '' END, id FROM audit_checkpoint WHERE id > $1 ORDER BY id LIMIT 64",
    "int8", "int8 text int8"};
static const struct pg_statement check_end_sql = {
    "check_end", /* each part uses an index, so the cost does not grow with the log */
    "SELECT EXISTS (SELECT FROM audit_entry WHERE seq >= l.size) OR EXISTS (SELECT FROM audit_entry WHERE seq < 0)"
    " OR EXISTS (SELECT FROM audit_payload WHERE seq >= l.size) OR EXISTS (SELECT FROM audit_payload WHERE seq < 0)"
    " OR EXISTS (SELECT FROM generate_series(0, 6) AS v (level), LATERAL (SELECT FROM audit_tile t WHERE t.level = v.level"
    " AND t.idx >= l.size >> (8 * (v.level + 1)) LIMIT 1) AS behind)"
    " OR EXISTS (SELECT FROM generate_series(0, 6) AS v (level), LATERAL (SELECT FROM audit_tile t WHERE t.level = v.level"
    " AND t.idx < 0 LIMIT 1) AS before)"
    " OR EXISTS (SELECT FROM audit_tile WHERE level < 0) OR EXISTS (SELECT FROM audit_tile WHERE level > 6) FROM audit_log l",
    "", "bool"};
static const struct pg_statement *const statements[] = {
    &check_entries_sql, &check_keys_sql, &check_tile_sql, &check_runs_sql, &check_notes_sql, &check_end_sql,
};
/* clang-format on */
const struct pg_table audit_check_table = PG_TABLE(statements);

struct result check_load_entries(struct pg *pg, uint64_t first, uint64_t count, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)first);
    pg_add_int8(&arguments, (int64_t)(first + count));
    return pg_run(pg, &check_entries_sql, &arguments, rows_out, err);
}

struct result check_find_unexpected_key(struct pg *pg, const struct log_check *check, uint64_t *sequence_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    pg_add_bytes_array(&arguments, check->keys, check->key_count);
    pg_add_int8_array(&arguments, check->sequences, check->key_count);
    pg_add_int8_array(&arguments, check->ordinals, check->key_count);
    TRY(pg_run(pg, &check_keys_sql, &arguments, &rows, err));
    *sequence_out = pg_rows_count(rows) == 0 ? UINT64_MAX : (uint64_t)pg_int8(rows, 0, 0);
    return SUCCESS;
}

struct result check_load_tile(struct pg *pg, unsigned level, uint64_t index, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int4(&arguments, (int32_t)level);
    pg_add_int8(&arguments, (int64_t)index);
    return pg_run(pg, &check_tile_sql, &arguments, rows_out, err);
}

struct result check_load_runs(struct pg *pg, const struct run_cursor *after, uint64_t size, struct pg_rows **rows_out,
                              struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_bytes(&arguments, (struct bytes){after->key, sizeof after->key});
    pg_add_int8(&arguments, after->last);
    pg_add_int8(&arguments, (int64_t)size);
    return pg_run(pg, &check_runs_sql, &arguments, rows_out, err);
}

struct result check_load_notes(struct pg *pg, const struct note_cursor *after, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, after->id);
    return pg_run(pg, &check_notes_sql, &arguments, rows_out, err);
}

struct result check_load_end(struct pg *pg, bool *has_more_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, &check_end_sql, NULL, &rows, err));
    *has_more_out = pg_rows_count(rows) == 1 && pg_bool(rows, 0, 0);
    return SUCCESS;
}
