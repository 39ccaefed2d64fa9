/*
 * audit/log_tiles_priv.h -- the tree of the log as the database has it.
 */
#pragma once

#include "audit/format/tile.h"
#include "storage/pg.h"

/** Over a connection that has audit_tree_table; `pg` must outlive it. Give &log->tiles.source to merkle.h. */
struct log_tiles {
    struct tile_source tiles; /* first */
    struct pg *pg;
};
void log_tiles_init(struct log_tiles *log, struct pg *pg, uint64_t size);
