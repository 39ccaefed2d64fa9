#include "audit/audit_store.h"

#include <assert.h>
#include <string.h>

#include "audit/format/tile.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement audit_leaf_hashes_sql = {
    "audit_leaf_hashes", "SELECT leaf_hash FROM audit_entry WHERE seq >= $1 AND seq < $2 ORDER BY seq", "int8 int8",
    "bytea"};
static const struct pg_statement audit_tile_roots_sql = {
    "audit_tile_roots", "SELECT root FROM audit_tile WHERE level = $1 AND idx >= $2 AND idx < $3 ORDER BY idx",
    "int4 int8 int8", "bytea"};
static const struct pg_statement audit_tile_hashes_sql = {
    "audit_tile_hashes", "SELECT hashes FROM audit_tile WHERE level = $1 AND idx = $2", "int4 int8", "bytea"};
static const struct pg_statement *const tree_statements[] = {
    &audit_leaf_hashes_sql, &audit_tile_roots_sql, &audit_tile_hashes_sql,
};
const struct pg_table audit_tree_table = PG_TABLE(tree_statements);

static const struct pg_statement audit_signing_state_sql = {
    "audit_signing_state",
    "SELECT size, frontier, (extract(epoch FROM clock_timestamp()) * 1000)::int8, last_ts FROM audit_log", "",
    "int8 bytea int8 int8"};
static const struct pg_statement audit_read_head_sql = {
    "audit_read_head", "SELECT origin, size, last_ts FROM audit_log", "", "text int8 int8"};
static const struct pg_statement audit_insert_checkpoint_sql = {
    "audit_insert_checkpoint",
    "INSERT INTO audit_checkpoint (size, root, note) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING", "int8 bytea text", ""};
static const struct pg_statement audit_keep_checkpoint_sql = {
    "audit_keep_checkpoint", /* checks for the row first, because a conflict would use up an id */
    "INSERT INTO audit_checkpoint (size, root, note) SELECT $1, $2, $3 WHERE NOT EXISTS (SELECT FROM audit_checkpoint"
    " WHERE size = $1 AND note = $3) ON CONFLICT DO NOTHING RETURNING size", "int8 bytea text", "int8"};
static const struct pg_statement audit_checkpoints_from_sql = {
    "audit_checkpoints_from",
    "SELECT size, note FROM audit_checkpoint WHERE size >= $1 ORDER BY size DESC, note LIMIT 8", "int8", "int8 text"};
static const struct pg_statement audit_ensure_partition_sql = {
    "audit_ensure_partition", "SELECT 1::int8 FROM audit_add_partition($1)", "int8", "int8"};
static const struct pg_statement *const sign_statements[] = {
    &audit_signing_state_sql, &audit_read_head_sql, &audit_insert_checkpoint_sql, &audit_keep_checkpoint_sql,
    &audit_checkpoints_from_sql, &audit_ensure_partition_sql,
};
const struct pg_table audit_sign_table = PG_TABLE(sign_statements);

static const struct pg_statement audit_find_subject_sql = {
    "audit_find_subject", "SELECT key_version, wrapped_key FROM audit_subject WHERE subject = $1", "bytea",
    "int4 bytea"};
static const struct pg_statement audit_insert_subject_sql = {
    "audit_insert_subject",
    "INSERT INTO audit_subject (subject, key_version, wrapped_key) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
    "bytea int4 bytea", ""};
static const struct pg_statement *const subject_statements[] = {
    &audit_find_subject_sql, &audit_insert_subject_sql,
};
/* clang-format on */
const struct pg_table audit_subject_table = PG_TABLE(subject_statements);

static struct result copy_hashes(const struct pg_rows *rows, size_t count, struct merkle_hash *hashes_out, struct error *err)
{
    if (pg_rows_count(rows) != count)
        return failure(err, ERROR_FORKED, "the log has %zu of %zu hashes that it must have", pg_rows_count(rows), count);
    for (size_t i = 0; i < count; i++) {
        const struct bytes hash = pg_bytes(rows, i, 0);
        if (hash.length != MERKLE_HASH_SIZE) return failure(err, ERROR_FORKED, "a hash of the log is not 32 bytes long");
        memcpy(hashes_out[i].bytes, hash.data, MERKLE_HASH_SIZE);
    }
    return SUCCESS;
}

struct result audit_load_leaf_hashes(struct pg *pg, uint64_t first, size_t count, struct merkle_hash *hashes_out,
                                     struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)first);
    pg_add_int8(&arguments, (int64_t)(first + count));
    TRY(pg_run(pg, &audit_leaf_hashes_sql, &arguments, &rows, err));
    return copy_hashes(rows, count, hashes_out, err);
}

struct result audit_load_tile_roots(struct pg *pg, unsigned level, uint64_t first, size_t count, struct merkle_hash *hashes_out,
                                    struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    pg_add_int4(&arguments, (int32_t)level);
    pg_add_int8(&arguments, (int64_t)first);
    pg_add_int8(&arguments, (int64_t)(first + count));
    TRY(pg_run(pg, &audit_tile_roots_sql, &arguments, &rows, err));
    return copy_hashes(rows, count, hashes_out, err);
}

struct result audit_load_tile(struct pg *pg, unsigned level, uint64_t index, struct merkle_hash *hashes_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    pg_add_int4(&arguments, (int32_t)level);
    pg_add_int8(&arguments, (int64_t)index);
    TRY(pg_run(pg, &audit_tile_hashes_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) != 1 || pg_bytes(rows, 0, 0).length != TILE_BYTES)
        return failure(err, ERROR_FORKED, "tile %u/%llu of the log is missing or damaged", level, (unsigned long long)index);
    memcpy(hashes_out, pg_bytes(rows, 0, 0).data, TILE_BYTES);
    return SUCCESS;
}

struct result audit_signing_state(struct pg *pg, struct audit_signing_state *state_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct audit_signing_state state;

    TRY(pg_run(pg, &audit_signing_state_sql, NULL, &rows, err));
    if (pg_rows_count(rows) != 1) return failure(err, ERROR_FORKED, "the state of the log is missing from the database");
    if (!merkle_frontier_read((uint64_t)pg_int8(rows, 0, 0), pg_bytes(rows, 0, 1), &state.frontier, err).ok)
        return failure(err, ERROR_FORKED, "the state of the log was changed: its frontier does not fit its size");
    state.now_ms = pg_int8(rows, 0, 2);
    state.last_time_ms = pg_int8(rows, 0, 3);
    *state_out = state;
    return SUCCESS;
}

struct result audit_read_head(struct pg *pg, struct pg_rows **rows_out, struct error *err)
{
    return pg_run(pg, &audit_read_head_sql, NULL, rows_out, err);
}

struct result audit_store_checkpoint(struct pg *pg, uint64_t size, const struct merkle_hash *root, const char *note,
                                     struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)size);
    pg_add_bytes(&arguments, (struct bytes){root->bytes, sizeof root->bytes});
    pg_add_text(&arguments, note);
    return pg_run(pg, &audit_insert_checkpoint_sql, &arguments, NULL, err);
}

struct result audit_keep_checkpoint(struct pg *pg, const struct signed_checkpoint *checkpoint, bool *was_missing_out,
                                    struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)checkpoint->size);
    pg_add_bytes(&arguments, (struct bytes){checkpoint->root.bytes, sizeof checkpoint->root.bytes});
    pg_add_text(&arguments, checkpoint->note);
    TRY(pg_run(pg, &audit_keep_checkpoint_sql, &arguments, &rows, err));
    *was_missing_out = pg_rows_count(rows) == 1;
    return SUCCESS;
}

struct result audit_checkpoints_from(struct pg *pg, uint64_t size, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)size);
    return pg_run(pg, &audit_checkpoints_from_sql, &arguments, rows_out, err);
}

struct result audit_ensure_partition(struct pg *pg, uint64_t number, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)number);
    return pg_run(pg, &audit_ensure_partition_sql, &arguments, NULL, err);
}

struct result audit_subject_find(struct pg *pg, const uint8_t index[32], struct audit_subject_row *row_out,
                                 struct pg_rows **rows_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    pg_add_bytes(&arguments, (struct bytes){index, 32});
    TRY(pg_run(pg, &audit_find_subject_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "no such subject");
    *row_out = (struct audit_subject_row){(int32_t)pg_int8(rows, 0, 0), pg_bytes(rows, 0, 1)};
    *rows_out = GIVE(rows);
    return SUCCESS;
}

struct result audit_subject_insert(struct pg *pg, const uint8_t index[32], const struct audit_subject_row *row, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_bytes(&arguments, (struct bytes){index, 32});
    pg_add_int4(&arguments, row->key_version);
    pg_add_bytes(&arguments, row->wrapped_key);
    return pg_run(pg, &audit_insert_subject_sql, &arguments, NULL, err);
}
