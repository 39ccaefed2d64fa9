/*
 * gateway/blocks_priv.h -- memory for bytes on their way, used again.
 *
 * Fresh memory costs more than what is done with it: a page fault each 4 KiB, and cold caches. The block that was
 * given back last is taken first. A few are kept for good; all others go back to the heap. From any thread.
 */
#pragma once

#include <stdint.h>

#include "base/owned.h"
#include "base/result.h"

#define BLOCK_SIZE ((size_t)128 * 1024) /* two records of SJB1, eight of TLS; two of them fit into a core's cache */

struct blocks;

RESULT blocks_new(struct blocks **blocks_out, struct error *err);
/** Its content is undefined. NULL when memory is out. */
uint8_t *blocks_take(struct blocks *blocks);
/** NULL is legal. */
void blocks_give(struct blocks *blocks, uint8_t *block);
/** Blocks that are still out stay their takers'. */
void blocks_free(struct blocks *blocks);
DEFINE_OWNED(blocks);
