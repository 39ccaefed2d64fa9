/*
 * audit/log_tiles_priv.h -- the tree of the log, read from the database.
 */
#pragma once

#include "audit/format/tile.h"
#include "storage/pg.h"

/** Needs a connection with audit_tree_table; `pg` must outlive it. Pass &log->tiles.source to the functions of merkle.h. */
struct log_tiles {
    struct tile_source tiles; /* first member */
    struct pg *pg;
};
void log_tiles_init(struct log_tiles *log, struct pg *pg, uint64_t size);
