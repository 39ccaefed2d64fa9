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

/*
 * Measured: what goes out, in pieces of 256 KiB, because each piece may wake the client; what comes in, in halves of
 * that, because hashing, sealing and writing find a piece in the cache that holds two of them.
 */
#define BLOCK_SIZE ((size_t)256 * 1024)

struct blocks;

RESULT blocks_new(struct blocks **blocks_out, struct error *err);
/** Its content is undefined. NULL when memory is out. */
uint8_t *blocks_take(struct blocks *blocks);
/** NULL is legal. */
void blocks_give(struct blocks *blocks, uint8_t *block);
/** Blocks that are still out stay their takers'. */
void blocks_free(struct blocks *blocks);
DEFINE_OWNED(blocks);
