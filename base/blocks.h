/*
 * base/blocks.h -- memory for bytes on their way, used again.
 *
 * Fresh memory costs more than what is done with it: a page fault each 4 KiB, and cold caches. The block that was
 * given back last is taken first. A few are kept for good; all others go back to the heap. From any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/owned.h"
#include "base/result.h"

#define BLOCKS_KEPT 64 /* of a quarter of a MiB: 16 MiB, enough for what two cores move at a time; more is mapped anew each time */

struct blocks;

/** All of `size` bytes. */
RESULT blocks_new(size_t size, struct blocks **blocks_out, struct error *err);
/** Its content is undefined. NULL when memory is out. */
uint8_t *blocks_take(struct blocks *blocks);
/** Whoever had a secret in it has wiped that; bodies on their way are not wiped, only written over by the next. NULL is legal. */
void blocks_give(struct blocks *blocks, uint8_t *block);
/** Blocks that are still out stay their takers'. */
void blocks_free(struct blocks *blocks);
DEFINE_OWNED(blocks);
