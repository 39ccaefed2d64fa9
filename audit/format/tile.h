/*
 * audit/format/tile.h -- the tree cut into tiles of 256 hashes (docs/formats/audit-log.md sections 3 and 4).
 *
 * Tile (level, index) holds the nodes of tree level 8 * level, from index * 256 on. A full tile never changes. Any prefix
 * of a partial tile is a valid partial tile. A partial tile is never hashed into the level above.
 */
#pragma once

#include "audit/format/merkle.h"

#define TILE_WIDTH     256
#define TILE_BYTES     (TILE_WIDTH * MERKLE_HASH_SIZE)
#define TILE_LEVEL_MAX 7  /* 2^63 entries fill no tile of a higher level */
#define TILE_PATH_MAX  64 /* "tile/entries/", seven groups of "x123/", ".p/255" and '\0' */

/** The number of hashes in the partial tile at `level` of a log of `size`; 0: there is no partial tile. */
unsigned tile_partial_width(uint64_t size, unsigned level);
/** The number of full tiles at `level`. */
uint64_t tile_full_count(uint64_t size, unsigned level);
/** Paths below the log's HTTP prefix; `width` 0 means the full tile. */
void tile_path(unsigned level, uint64_t index, unsigned width, char path_out[TILE_PATH_MAX]);
void tile_entries_path(uint64_t index, unsigned width, char path_out[TILE_PATH_MAX]);
/** What a path below the log's HTTP prefix names: a tile of hashes, or a bundle of entries. */
struct tile_name {
    bool is_entries;
    unsigned level; /* 0 to 63; of a bundle 0 */
    uint64_t index;
    unsigned width; /* of a partial tile 1 to 255; TILE_WIDTH: full */
};
/** Reads what follows "tile/": "0/x001/234.p/17", "entries/000". ERROR_INVALID unless it is the one spelling. */
RESULT tile_name_read(const char *path, struct tile_name *name_out, struct error *err);
/** The whole path, with "tile/". */
void tile_name_write(const struct tile_name *name, char path_out[TILE_PATH_MAX]);
/** How many hashes or entries the tile has in a log of `size`; 0: it has no such tile. */
unsigned tile_name_available(const struct tile_name *name, uint64_t size);
/** The root over 2^k hashes, which stands for a full tile in the level above. Asserts that `count` is a power of two. */
struct merkle_hash tile_root(const struct merkle_hash *hashes, size_t count);

/** Appends one entry to an entry bundle: u16 length, then the bytes. ERROR_LIMIT over 65,535 bytes. */
RESULT tile_add_entry(struct buffer *bundle, struct bytes entry, struct error *err);

/** A source of nodes that loads tiles, and keeps the few that one proof needs. */
struct tile_source {
    struct merkle_source source; /* first member: pass &tiles->source to the functions of merkle.h */
    /** Sets hashes_out[0 .. width-1] to the first `width` hashes of the tile. */
    /* clang-format off */
    RESULT (*load)(struct tile_source *tiles, unsigned level, uint64_t index, unsigned width,
                   struct merkle_hash *hashes_out, struct error *err);
    /* clang-format on */
    uint64_t size; /* of the log; no tile is asked for beyond it */
    struct tile_slot {
        bool used;
        unsigned width;
        uint64_t index;
        struct merkle_hash hashes[TILE_WIDTH];
    } slots[2 * (TILE_LEVEL_MAX + 1)]; /* a proof needs at most two tiles of a level */
};
void tile_source_init(struct tile_source *tiles, uint64_t size);
/** Uses these hashes for the tile and does not load it, until two other tiles of its level were used. */
void tile_source_put(struct tile_source *tiles, unsigned level, uint64_t index, const struct merkle_hash *hashes, unsigned width);
