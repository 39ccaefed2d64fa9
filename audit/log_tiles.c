#include "audit/log_tiles_priv.h"

#include "audit/audit_store.h"

/* A full tile is a row. A partial tile is made from the leaf hashes so far, or from the roots of the full tiles below it. */
static struct result load(struct tile_source *tiles, unsigned level, uint64_t index, unsigned width,
                          struct merkle_hash *hashes_out, struct error *err)
{
    struct log_tiles *log = (struct log_tiles *)(void *)tiles;

    if (width == TILE_WIDTH) return audit_load_tile(log->pg, level, index, hashes_out, err);
    if (level == 0) return audit_load_leaf_hashes(log->pg, index * TILE_WIDTH, width, hashes_out, err);
    return audit_load_tile_roots(log->pg, level - 1, index * TILE_WIDTH, width, hashes_out, err);
}

void log_tiles_init(struct log_tiles *log, struct pg *pg, uint64_t size)
{
    tile_source_init(&log->tiles, size);
    log->tiles.load = load;
    log->pg = pg;
}
