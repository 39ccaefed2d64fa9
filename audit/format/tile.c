#include "audit/format/tile.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

unsigned tile_partial_width(uint64_t size, unsigned level)
{
    return level > TILE_LEVEL_MAX ? 0 : (unsigned)((size >> (8 * level)) & (TILE_WIDTH - 1));
}

uint64_t tile_full_count(uint64_t size, unsigned level)
{
    return level >= TILE_LEVEL_MAX ? 0 : size >> (8 * (level + 1));
}

/* 1234067 -> "x001/x234/067" */
/* NOLINTNEXTLINE(misc-no-recursion): one level for each three digits of 64 bits */
static size_t write_index(uint64_t index, char *destination, size_t room)
{
    size_t used = 0;

    if (index >= 1000) used = write_index(index / 1000, destination, room);
    if (used > 0) { /* not the last group of three digits: it gets an x */
        const size_t group = used - 3;
        memmove(destination + group + 1, destination + group, 3);
        destination[group] = 'x';
        destination[used + 1] = '/';
        used += 2;
    }
    const int length = snprintf(destination + used, room - used, "%03u", (unsigned)(index % 1000));
    assert(length == 3);
    return used + 3;
}

static void finish_path(size_t used, uint64_t index, unsigned width, char *path)
{
    assert(width < TILE_WIDTH);
    used += write_index(index, path + used, TILE_PATH_MAX - used);
    if (width > 0) (void)snprintf(path + used, TILE_PATH_MAX - used, ".p/%u", width);
}

void tile_path(unsigned level, uint64_t index, unsigned width, char path_out[TILE_PATH_MAX])
{
    const int used = snprintf(path_out, TILE_PATH_MAX, "tile/%u/", level);

    assert(used > 0);
    finish_path((size_t)used, index, width, path_out);
}

void tile_entries_path(uint64_t index, unsigned width, char path_out[TILE_PATH_MAX])
{
    const int used = snprintf(path_out, TILE_PATH_MAX, "tile/entries/");

    assert(used > 0);
    finish_path((size_t)used, index, width, path_out);
}

struct merkle_hash tile_root(const struct merkle_hash *hashes, size_t count)
{
    struct merkle_hash row[TILE_WIDTH];

    assert(count > 0 && count <= TILE_WIDTH && (count & (count - 1)) == 0);
    memcpy(row, hashes, count * sizeof *hashes);
    for (; count > 1; count /= 2)
        for (size_t i = 0; i < count / 2; i++) merkle_node_hash(&row[2 * i], &row[2 * i + 1], &row[i]);
    return row[0];
}

struct result tile_add_entry(struct buffer *bundle, struct bytes entry, struct error *err)
{
    if (entry.length > MERKLE_ENTRY_MAX)
        return failure(err, ERROR_LIMIT, "an entry of %zu bytes; a bundle takes at most %d", entry.length, MERKLE_ENTRY_MAX);
    TRY(buffer_add_u16(bundle, (uint16_t)entry.length, err));
    return buffer_add(bundle, entry.data, entry.length, err);
}

static unsigned available_width(const struct tile_source *tiles, unsigned level, uint64_t index)
{
    return index < tile_full_count(tiles->size, level) ? TILE_WIDTH : tile_partial_width(tiles->size, level);
}

static struct tile_slot *find_slot(struct tile_source *tiles, unsigned level, uint64_t index)
{
    struct tile_slot *pair = &tiles->slots[2 * level];

    if (pair[0].used && pair[0].index == index) return &pair[0];
    if (pair[1].used && pair[1].index == index) return &pair[1];
    return pair[0].used ? &pair[1] : &pair[0];
}

static struct result tile_node(struct merkle_source *source, unsigned level, uint64_t index, struct merkle_hash *hash_out,
                               struct error *err)
{
    struct tile_source *tiles = (struct tile_source *)(void *)source;
    const unsigned tile_level = level / 8, shift = level % 8;
    const uint64_t first = index << shift, tile_index = first / TILE_WIDTH;
    struct tile_slot *slot = find_slot(tiles, tile_level, tile_index);

    if (!slot->used || slot->index != tile_index) {
        const unsigned width = available_width(tiles, tile_level, tile_index);
        slot->used = false;
        TRY(tiles->load(tiles, tile_level, tile_index, width, slot->hashes, err));
        slot->used = true;
        slot->width = width;
        slot->index = tile_index;
    }
    const size_t offset = first % TILE_WIDTH, count = (size_t)1 << shift;
    assert(offset + count <= slot->width);
    *hash_out = tile_root(slot->hashes + offset, count);
    return SUCCESS;
}

void tile_source_init(struct tile_source *tiles, uint64_t size)
{
    tiles->source.node = tile_node;
    tiles->size = size;
    for (size_t i = 0; i < sizeof tiles->slots / sizeof tiles->slots[0]; i++) tiles->slots[i].used = false;
}

void tile_source_put(struct tile_source *tiles, unsigned level, uint64_t index, const struct merkle_hash *hashes, unsigned width)
{
    struct tile_slot *slot = find_slot(tiles, level, index);

    assert(width > 0 && width <= TILE_WIDTH && width <= available_width(tiles, level, index));
    memcpy(slot->hashes, hashes, width * sizeof *hashes);
    slot->used = true;
    slot->width = width;
    slot->index = index;
}
