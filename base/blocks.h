/*
 * base/blocks.h -- a pool of equal blocks of memory, for the bytes of bodies.
 *
 * Fresh memory is slow: a page fault each 4 KiB, and cold caches. So the block that was returned last is taken first. Some
 * free blocks are kept; more go back to the heap. Thread-safe.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/owned.h"
#include "base/result.h"

#define BLOCKS_KEPT 64 /* of 256 KiB each: 16 MiB, as much as two cores use at a time; the heap provides more when needed */

struct blocks;

/** A pool of blocks of `size` bytes. */
RESULT blocks_new(size_t size, struct blocks **blocks_out, struct error *err);
/** The content is undefined. NULL when out of memory. */
uint8_t *blocks_take(struct blocks *blocks);
/** The caller wipes a block that held a secret. Blocks with bodies are not wiped; the next user overwrites them.
 *  NULL is legal. */
void blocks_give(struct blocks *blocks, uint8_t *block);
/** Blocks that are still taken belong to their users. */
void blocks_free(struct blocks *blocks);
DEFINE_OWNED(blocks);
