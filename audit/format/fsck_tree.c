#include <assert.h>
#include <string.h>

#include "audit/format/fsck_priv.h"

static void add_due(struct fsck_block *block, unsigned level, uint64_t index, const struct merkle_hash *hashes)
{
    assert(block->due_count < FSCK_DUE_MAX);
    block->due[block->due_count++] = (struct fsck_due){level, index, hashes};
}

/* A tile of `level` is full: its root belongs to the row above. A row that becomes full with it is a tile, too. */
static void add_root(struct fsck_block *block, unsigned level, struct merkle_hash root)
{
    for (; level <= TILE_LEVEL_MAX; level++) {
        block->rows[level][block->row_counts[level]++] = root;
        if (block->row_counts[level] < TILE_WIDTH) return;
        block->row_counts[level] = 0;
        memcpy(block->done[level], block->rows[level], sizeof block->done[level]);
        root = tile_root(block->done[level], TILE_WIDTH);
        add_due(block, level, (block->number * DUMP_BLOCK + block->count - 1) >> (8 * (level + 1)), block->done[level]);
    }
}

/* Tiles of level 0 first, as in the stream. */
void fsck_begin_tiles(struct fsck *fsck)
{
    struct fsck_block *block = fsck->block;
    const uint64_t first = block->number * DUMP_BLOCK / TILE_WIDTH;
    const size_t full = block->count / TILE_WIDTH;

    if (block->is_lost) return;
    for (size_t i = 0; i < full; i++) add_due(block, 0, first + i, block->hashes + i * TILE_WIDTH);
    for (size_t i = 0; i < full; i++) add_root(block, 1, tile_root(block->hashes + i * TILE_WIDTH, TILE_WIDTH));
}

static uint64_t first_entry(const struct fsck_due *due, size_t place)
{
    return (due->index * TILE_WIDTH + place) << (8 * due->level);
}

static void compare_tile(struct fsck *fsck, const struct fsck_due *due, const struct dump_tile *tile)
{
    const struct merkle_hash root = tile_root(due->hashes, TILE_WIDTH);

    for (size_t i = 0; i < TILE_WIDTH; i++)
        if (memcmp(due->hashes[i].bytes, tile->hashes.data + i * MERKLE_HASH_SIZE, MERKLE_HASH_SIZE) != 0) {
            fsck_find(fsck, FSCK_TILE, first_entry(due, i), "tile %u/%llu has another hash in place %zu", due->level,
                      (unsigned long long)due->index, i);
            return;
        }
    if (!bytes_equal(tile->root, (struct bytes){root.bytes, sizeof root.bytes}))
        fsck_find(fsck, FSCK_TILE, first_entry(due, 0), "tile %u/%llu has another root", due->level,
                  (unsigned long long)due->index);
}

static void miss_tile(struct fsck *fsck, const struct fsck_due *due)
{
    fsck_find(fsck, FSCK_TILE, first_entry(due, 0), "tile %u/%llu is missing", due->level, (unsigned long long)due->index);
}

/* The block of a tile is the one with its last entry. False: no log has such a tile. */
static bool block_of_tile(const struct fsck *fsck, const struct dump_tile *tile, uint64_t *number_out)
{
    if (tile->level >= TILE_LEVEL_MAX || tile->index >= tile_full_count(fsck->head.size, tile->level)) return false;
    *number_out = (((tile->index + 1) << (8 * (tile->level + 1))) - 1) / DUMP_BLOCK;
    return true;
}

struct result fsck_take_tile(struct fsck *fsck, const struct dump_tile *tile, struct error *err)
{
    struct fsck_block *block = fsck->block;
    size_t at = 0;

    while (at < block->due_count && (block->due[at].level != tile->level || block->due[at].index != tile->index)) at++;
    if (at == block->due_count) return SUCCESS; /* outside the window, or the tree is lost */
    if (at < block->due_at)
        return failure(err, ERROR_INVALID, "tile %u/%llu does not stand in its place, or comes twice", tile->level,
                       (unsigned long long)tile->index);
    while (block->due_at < at) miss_tile(fsck, &block->due[block->due_at++]);
    compare_tile(fsck, &block->due[block->due_at++], tile);
    return SUCCESS;
}

void fsck_end_tiles(struct fsck *fsck)
{
    struct fsck_block *block = fsck->block;

    while (block->due_at < block->due_count) miss_tile(fsck, &block->due[block->due_at++]);
}

struct result fsck_take_payload(struct fsck *fsck, const struct dump_payload *payload, struct error *err)
{
    struct fsck_block *block = fsck->block;
    struct fsck_window *window = &fsck->window;
    const uint64_t number = payload->sequence;

    if ((int64_t)number < block->payload_next)
        return failure(err, ERROR_INVALID, "the sealed part of entry %llu does not stand in its place",
                       (unsigned long long)number);
    block->payload_next = (int64_t)number + 1;
    if (!fsck_in_window(fsck, number)) return SUCCESS;
    const struct fsck_item *item = &block->items[number % DUMP_BLOCK];
    block->has_row[number % DUMP_BLOCK] = payload->has_key;
    fsck->report.payloads++;
    if (item->is_read && !item->has_payload)
        fsck_find(fsck, FSCK_PAYLOAD, number, "a sealed part is stored, and its leaf has none");
    else if (payload->length < 40) fsck_find(fsck, FSCK_PAYLOAD, number, "its sealed part is cut");
    window->marks[number - window->first] |= FSCK_HAS_PAYLOAD;
    window->subjects[number - window->first] = (uint32_t)table_hash(fsck->secret, payload->subject);
    return SUCCESS;
}

/* An entry does not keep its actor, so the leaf of one without its sealed part is read again. */
struct result fsck_end_payloads(struct fsck *fsck, struct error *err)
{
    const struct fsck_block *block = fsck->block;
    struct leaf leaf;

    for (size_t i = 0; i < block->count; i++) {
        const struct fsck_item *item = &block->items[i];
        if (!item->has_payload || block->has_row[i]) continue;
        TRY(leaf_read((struct bytes){block->text.data + item->at + item->action_length + item->outcome_length, item->leaf_length},
                      &leaf, err));
        TRY(fsck_rows_lack(fsck, block->number * DUMP_BLOCK + i, bytes_of_text(leaf.actor), err));
    }
    return SUCCESS;
}

/* False: the log's key of that size has not signed this note, or not for this size. */
static bool read_note(const struct fsck *fsck, const struct dump_checkpoint *row, struct checkpoint *checkpoint)
{
    struct note note;
    struct error why;

    return note_read(row->note, &note, &why).ok && log_keys_verify(&fsck->keys, &note, checkpoint, NULL, &why).ok &&
           checkpoint->size == row->size;
}

/* The tree of the first `size` entries; those of the block are added one by one. */
static struct merkle_hash root_at(struct fsck_block *block, uint64_t size)
{
    if (size < block->cursor.size) block->cursor = block->before;
    while (block->cursor.size < size) merkle_append(&block->cursor, &block->hashes[block->cursor.size - block->before.size]);
    return merkle_frontier_root(&block->cursor);
}

static void compare_root(struct fsck *fsck, const struct checkpoint *checkpoint)
{
    struct fsck_block *block = fsck->block;
    const uint64_t size = checkpoint->size;

    if (block->is_lost || size < block->before.size || size > block->frontier.size) return;
    const struct merkle_hash root = root_at(block, size);
    if (merkle_hash_equal(&root, &checkpoint->root)) {
        block->good = size;
        return;
    }
    fsck_find(fsck, FSCK_CHECKPOINT, size == 0 ? 0 : size - 1,
              "the first %llu entries are not those that were signed; the first %llu are", (unsigned long long)size,
              (unsigned long long)block->good);
}

/* The number of the last entry that a row claims to cover, as far as there is one. */
static uint64_t last_of(const struct fsck *fsck, uint64_t size)
{
    const uint64_t covered = size < fsck->head.size ? size : fsck->head.size;

    return covered == 0 ? 0 : covered - 1;
}

static void note_signed(struct fsck *fsck, uint64_t size)
{
    const struct fsck_block *block = fsck->block;

    if (size <= fsck->report.signed_size) return;
    fsck->report.signed_size = size;
    const uint64_t place = size - block->number * DUMP_BLOCK;
    if (place < block->count && block->items[place].is_here) fsck->unsigned_ms = block->items[place].time_ms;
}

void fsck_take_checkpoint(struct fsck *fsck, const struct dump_checkpoint *row)
{
    struct checkpoint checkpoint;
    const bool is_signed = read_note(fsck, row, &checkpoint);

    if (!fsck_in_window(fsck, fsck->block->number * DUMP_BLOCK) && fsck->head.size > 0) return;
    fsck->report.checkpoints++;
    if (!is_signed) {
        fsck->report.foreign++;
        fsck_find(fsck, FSCK_CHECKPOINT, last_of(fsck, row->size),
                  "the stored checkpoint of %llu entries is not signed by the log's key: it was edited, or is of another key",
                  (unsigned long long)row->size);
        return;
    }
    note_signed(fsck, row->size);
    if (row->size > fsck->head.size)
        fsck_find(fsck, FSCK_CHECKPOINT, fsck->head.size,
                  "%llu entries were signed, and only %llu are here: the log was truncated", (unsigned long long)row->size,
                  (unsigned long long)fsck->head.size);
    else if (!bytes_equal(row->root, (struct bytes){checkpoint.root.bytes, sizeof checkpoint.root.bytes}))
        fsck_find(fsck, FSCK_CHECKPOINT, row->size == 0 ? 0 : row->size - 1,
                  "the root that is stored beside the checkpoint of %llu entries is not the signed one",
                  (unsigned long long)row->size);
    else compare_root(fsck, &checkpoint);
}

/* A checkpoint that the key has not signed may state any size: it stands where it stands. */
struct result fsck_block_of(const struct fsck *fsck, const struct dump_record *record, uint64_t *block_out, bool *has_block_out,
                            struct error *err)
{
    struct checkpoint checkpoint;

    *has_block_out = true;
    if (record->type == DUMP_ENTRY) *block_out = record->entry.sequence / DUMP_BLOCK;
    else if (record->type == DUMP_PAYLOAD) *block_out = record->payload.sequence / DUMP_BLOCK;
    else if (record->type == DUMP_CHECKPOINT) {
        const struct dump_checkpoint *row = &record->checkpoint;
        *has_block_out = row->size > 0 && row->size <= fsck->head.size && read_note(fsck, row, &checkpoint);
        if (*has_block_out) *block_out = (row->size - 1) / DUMP_BLOCK;
    } else if (!block_of_tile(fsck, &record->tile, block_out))
        return failure(err, ERROR_INVALID, "there is a tile that no log of this size has");
    return SUCCESS;
}
