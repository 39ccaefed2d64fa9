#include "audit/log_check_priv.h"

#include <assert.h>
#include <string.h>

#include "audit/audit_store.h"
#include "base/memory.h"

#define RUN_LEAF_COLUMN 3 /* of the rows of check_load_runs() */

struct result log_check_new(struct pg *pg, struct log_check **check_out, struct error *err)
{
    struct log_check *check = memory_zeroed(1, sizeof *check);

    if (check == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for checking the log");
    check->tiles.pg = pg;
    *check_out = check;
    return SUCCESS;
}

void log_check_free(struct log_check *check)
{
    if (check == NULL) return;
    archived_leaves_free(check->archived);
    free(check);
}

void log_check_against(struct log_check *check, uint64_t size, const struct merkle_hash *root)
{
    log_tiles_init(&check->tiles, check->tiles.pg, size);
    check->size = size;
    check->root = *root;
}

static struct result wrong(struct error *err, uint64_t sequence, const char *what)
{
    return failure(err, ERROR_FORKED, "entry %llu of the log is not as it was signed: %s", (unsigned long long)sequence, what);
}

static struct result hash_leaves(struct log_check *check, const struct pg_rows *rows, uint64_t first, size_t count,
                                 struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        struct merkle_hash *hash = &check->hashes[i];
        if (i >= pg_rows_count(rows) || (uint64_t)pg_int8(rows, i, 0) != first + i) return wrong(err, first + i, "it is missing");
        const struct bytes leaf = archived_leaf(check->archived, rows, i, CHECK_LEAF_COLUMN);
        if (leaf.length > MERKLE_ENTRY_MAX) return wrong(err, first + i, "it is too long");
        merkle_leaf_hash(leaf, hash);
        if (!bytes_equal(pg_bytes(rows, i, 3), (struct bytes){hash->bytes, sizeof hash->bytes}))
            return wrong(err, first + i, "its bytes do not match the stored hash");
    }
    return SUCCESS;
}

/* The proof of the tile's first entry contains all its hashes, so the hashes computed here lead to the signed root, or the check
 * fails. */
static struct result prove_tile(struct log_check *check, uint64_t index, size_t count, struct error *err)
{
    const uint64_t first = index * TILE_WIDTH;
    struct merkle_proof proof;

    tile_source_put(&check->tiles.tiles, 0, index, check->hashes, (unsigned)count);
    TRY(merkle_prove_inclusion(&check->tiles.tiles.source, first, check->size, &proof, err));
    if (merkle_verify_inclusion(first, check->size, &check->hashes[0], &proof, &check->root)) return SUCCESS;
    return failure(
        err, ERROR_FORKED,
        "entries %llu to %llu of the log, or tiles above them, are not as they were signed: no inclusion proof leads from "
        "them to the root of %llu entries",
        (unsigned long long)first, (unsigned long long)(first + count - 1), (unsigned long long)check->size);
}

static struct result check_columns(struct log_check *check, const struct pg_rows *rows, size_t i, struct error *err)
{
    const struct leaf *leaf = &check->leaf;
    const uint64_t sequence = (uint64_t)pg_int8(rows, i, 0);

    if (leaf->sequence != sequence) return wrong(err, sequence, "the sequence number in its leaf is another");
    if (leaf->time_ms != pg_int8(rows, i, 1)) return wrong(err, sequence, "the stored time differs from the time in its leaf");
    if (leaf->time_ms < check->last_time_ms) return wrong(err, sequence, "its time is before the time of the previous entry");
    if (strcmp(leaf->targets[0].action, pg_text(rows, i, 4)) != 0)
        return wrong(err, sequence, "the stored action differs from the action in its leaf");
    if (strcmp(leaf->outcome, pg_text(rows, i, 5)) != 0)
        return wrong(err, sequence, "the stored outcome differs from the outcome in its leaf");
    check->last_time_ms = leaf->time_ms;
    return SUCCESS;
}

static void gather_keys(struct log_check *check)
{
    const struct leaf *leaf = &check->leaf;

    for (size_t k = 0; k < leaf->key_count; k++) {
        const size_t index = check->key_count++;
        leaf_key_id(leaf->keys[k].name, check->key_ids[index]);
        check->keys[index] = (struct bytes){check->key_ids[index], LEAF_KEY_ID_SIZE};
        check->sequences[index] = (int64_t)leaf->sequence;
        check->ordinals[index] = (int64_t)leaf->keys[k].ordinal;
    }
}

/* A signed leaf that can't be read is the fault of the program that wrote it, not a change of the log. */
static struct result check_rows(struct log_check *check, const struct pg_rows *rows, size_t count, struct error *err)
{
    uint64_t unexpected = 0;

    check->key_count = 0;
    check->last_time_ms = 0;
    for (size_t i = 0; i < count; i++) {
        struct error why;
        if (!leaf_read(archived_leaf(check->archived, rows, i, CHECK_LEAF_COLUMN), &check->leaf, &why).ok) {
            if (why.kind == ERROR_NO_MEMORY) return failure(err, why.kind, "%s", why.message);
            check->unreadable++;
            continue;
        }
        TRY(check_columns(check, rows, i, err));
        gather_keys(check);
    }
    TRY(check_find_unexpected_key(check->tiles.pg, check, &unexpected, err));
    return unexpected == UINT64_MAX
               ? SUCCESS
               : wrong(err, unexpected, "the index lists it under another number of one of its keys, or not at all");
}

static struct result check_stored_tile(struct log_check *check, unsigned level, uint64_t index, const struct merkle_hash *hashes,
                                       struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    const struct merkle_hash root = tile_root(hashes, TILE_WIDTH);

    TRY(check_load_tile(check->tiles.pg, level, index, &rows, err));
    if (pg_rows_count(rows) == 1 && bytes_equal(pg_bytes(rows, 0, 0), (struct bytes){hashes[0].bytes, TILE_BYTES}) &&
        bytes_equal(pg_bytes(rows, 0, 1), (struct bytes){root.bytes, sizeof root.bytes}))
        return SUCCESS;
    return failure(err, ERROR_FORKED, "tile %u/%llu of the log is missing, or does not match its entries", level,
                   (unsigned long long)index);
}

/* Checks this tile, and the tiles of higher levels that end with it. The hashes in a higher tile are the roots of the tiles
 * below. */
static struct result check_tiles_above(struct log_check *check, uint64_t index, struct error *err)
{
    struct merkle_hash hashes[TILE_WIDTH];

    TRY(check_stored_tile(check, 0, index, check->hashes, err));
    for (unsigned level = 1; (index + 1) % TILE_WIDTH == 0 && level <= TILE_LEVEL_MAX; level++) {
        TRY(audit_load_tile_roots(check->tiles.pg, level - 1, index + 1 - TILE_WIDTH, TILE_WIDTH, hashes, err));
        index /= TILE_WIDTH;
        TRY(check_stored_tile(check, level, index, hashes, err));
    }
    return SUCCESS;
}

static struct result check_entries(struct log_check *check, const struct pg_rows *rows, uint64_t index, size_t count,
                                   struct error *err)
{
    TRY(hash_leaves(check, rows, index * TILE_WIDTH, count, err));
    TRY(prove_tile(check, index, count, err));
    return check_rows(check, rows, count, err);
}

struct result log_check_tile(struct log_check *check, uint64_t index, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    const uint64_t first = index * TILE_WIDTH, left = check->size - first;
    const size_t count = left < TILE_WIDTH ? (size_t)left : TILE_WIDTH;

    assert(first < check->size);
    TRY(check_load_entries(check->tiles.pg, first, count, &rows, err));
    archived_leaves_free(check->archived);
    check->archived = NULL;
    TRY(archived_load(check->tiles.pg, rows, (const size_t[2]){0, CHECK_LEAF_COLUMN}, &check->archived, err));
    TRY(check_entries(check, rows, index, count, err));
    return count < TILE_WIDTH ? SUCCESS : check_tiles_above(check, index, err);
}

struct result log_check_end(struct pg *pg, struct error *err)
{
    bool has_more = false;

    TRY(check_load_end(pg, &has_more, err));
    if (!has_more) return SUCCESS;
    return failure(err, ERROR_FORKED, "there are rows after the end of the log, where no gateway writes any");
}

static bool has_key(const struct leaf *leaf, struct bytes key, int64_t number)
{
    uint8_t id[LEAF_KEY_ID_SIZE];

    for (size_t k = 0; k < leaf->key_count; k++) {
        leaf_key_id(leaf->keys[k].name, id);
        if (bytes_equal(key, (struct bytes){id, sizeof id})) return leaf->keys[k].ordinal == (uint64_t)number;
    }
    return false;
}

/* A leaf that can't be read is no change of the log, so its ordinals are not compared. This costs no safety: a program that could
 * append this leaf could also have appended a readable leaf with any ordinals. */
static struct result read_head(struct bytes bytes, uint64_t last, struct leaf *leaf, bool *is_read_out, struct error *err)
{
    struct error why;

    if (bytes.length == 0) return wrong(err, last, "it is missing");
    *is_read_out = leaf_read(bytes, leaf, &why).ok;
    if (!*is_read_out && why.kind == ERROR_NO_MEMORY) return failure(err, why.kind, "%s", why.message);
    return SUCCESS;
}

/* The keys of one event mostly follow each other, so its leaf is read once. */
struct result log_check_heads(const struct pg_rows *rows, const struct bytes *keys, size_t count, struct error *err)
{
    struct leaf leaf;
    int64_t read = -1;
    bool is_read = false;

    for (size_t i = 0; i < count; i++) {
        const int64_t last = pg_int8(rows, i, 1);
        if (last < 0) continue;
        if (last != read) TRY(read_head(pg_bytes(rows, i, 2), (uint64_t)last, &leaf, &is_read, err));
        read = last;
        if (is_read && !has_key(&leaf, keys[i], pg_int8(rows, i, 0)))
            return wrong(err, (uint64_t)last, "the index lists it under a key or a number that its leaf does not have");
    }
    return SUCCESS;
}

static struct result check_run(struct log_check *check, const struct pg_rows *rows, const struct archived_leaves *archived,
                               size_t i, struct error *err)
{
    const uint64_t last = (uint64_t)pg_int8(rows, i, 1);
    struct error why;

    if (pg_bytes(rows, i, 0).length != LEAF_KEY_ID_SIZE)
        return wrong(err, last, "the index lists it under bytes that are no key");
    if (!pg_bool(rows, i, 4))
        return wrong(err, last,
                     "a run of a key ends with it, and does not continue the run before, or is after the end of the log");
    if (!leaf_read(archived_leaf(archived, rows, i, RUN_LEAF_COLUMN), &check->leaf, &why).ok) {
        if (why.kind == ERROR_NO_MEMORY) return failure(err, why.kind, "%s", why.message);
        return SUCCESS; /* check_rows() counts it */
    }
    if (has_key(&check->leaf, pg_bytes(rows, i, 0), pg_int8(rows, i, 2))) return SUCCESS;
    return wrong(err, last, "the index lists it under a key or a number that its leaf does not have");
}

struct result log_check_runs(struct log_check *check, struct run_cursor *cursor, size_t *count_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    OWNED(archived_leaves) *archived = NULL;

    TRY(check_load_runs(check->tiles.pg, cursor, check->size, &rows, err));
    TRY(archived_load(check->tiles.pg, rows, (const size_t[2]){1, RUN_LEAF_COLUMN}, &archived, err));
    const size_t count = pg_rows_count(rows);
    for (size_t i = 0; i < count; i++) TRY(check_run(check, rows, archived, i, err));
    if (count > 0) {
        memcpy(cursor->key, pg_bytes(rows, count - 1, 0).data, sizeof cursor->key);
        cursor->last = pg_int8(rows, count - 1, 1);
    }
    *count_out = count;
    return SUCCESS;
}

/* *is_signed_out is false also for a valid note in a row with another size. Lack of memory is an error, because it proves nothing
 * about the row. */
static struct result read_note(const struct log_keys *keys, const struct pg_rows *rows, size_t i,
                               struct signed_checkpoint *checkpoint, bool *is_signed_out, struct error *err)
{
    struct error why;
    const bool is_read = signed_checkpoint_read(keys, bytes_of_text(pg_text(rows, i, 1)), checkpoint, &why).ok;

    if (!is_read && why.kind == ERROR_NO_MEMORY) return failure(err, why.kind, "%s", why.message);
    *is_signed_out = is_read && checkpoint->size == (uint64_t)pg_int8(rows, i, 0);
    return SUCCESS;
}

static struct result compare_note(struct log_check *check, const struct signed_checkpoint *checkpoint, struct error *err)
{
    struct merkle_hash root;

    if (checkpoint->size > check->size)
        return failure(err, ERROR_FORKED, "sijil-keyd has signed %llu events, but only %llu are here: the log was truncated",
                       (unsigned long long)checkpoint->size, (unsigned long long)check->size);
    TRY(merkle_root_at(&check->tiles.tiles.source, checkpoint->size, &root, err));
    if (merkle_hash_equal(&root, &checkpoint->root)) return SUCCESS;
    return failure(err, ERROR_FORKED, "the first %llu events are not those that sijil-keyd has signed",
                   (unsigned long long)checkpoint->size);
}

struct result log_check_note(struct log_check *check, const struct log_keys *keys, const struct pg_rows *rows, size_t i,
                             bool *is_signed_out, struct error *err)
{
    struct signed_checkpoint checkpoint;

    TRY(read_note(keys, rows, i, &checkpoint, is_signed_out, err));
    return *is_signed_out ? compare_note(check, &checkpoint, err) : SUCCESS;
}

/* A row with a larger size may be newer than this round: keyd may have signed a longer log since. So only the signature of the
 * row is verified. A row with another root beside its note was edited: it does not count as signed, but its note does. */
static struct result check_next_note(struct log_check *check, const struct log_keys *keys, const struct pg_rows *rows, size_t i,
                                     bool *is_signed_out, struct error *err)
{
    struct signed_checkpoint checkpoint;

    TRY(read_note(keys, rows, i, &checkpoint, is_signed_out, err));
    if (!*is_signed_out) return SUCCESS;
    *is_signed_out = bytes_equal(pg_bytes(rows, i, 3), (struct bytes){checkpoint.root.bytes, sizeof checkpoint.root.bytes});
    return checkpoint.size > check->size ? SUCCESS : compare_note(check, &checkpoint, err);
}

struct result log_check_notes(struct log_check *check, const struct log_keys *keys, struct note_cursor *cursor, size_t *count_out,
                              uint64_t *foreign_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    uint64_t foreign = 0;

    TRY(check_load_notes(check->tiles.pg, cursor, &rows, err));
    const size_t count = pg_rows_count(rows);
    for (size_t i = 0; i < count; i++) {
        bool is_signed = false;
        TRY(check_next_note(check, keys, rows, i, &is_signed, err));
        foreign += is_signed ? 0 : 1;
    }
    if (count > 0) cursor->id = pg_int8(rows, count - 1, 2);
    *count_out = count;
    *foreign_out = foreign;
    return SUCCESS;
}
