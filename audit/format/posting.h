/*
 * audit/format/posting.h -- which entries of a block of the log have a term, as the index of searches stores it.
 *
 * A stored list has the places in the block, two bytes each (big-endian), ascending. If these would have POSTING_BYTES or more, it has one bit
 * for each place instead. So no list is longer than POSTING_BYTES, and its length tells its form.
 */
#pragma once

#include "base/bytes.h"

#define POSTING_BLOCK 4096 /* entries */
#define POSTING_WORDS (POSTING_BLOCK / 64)
#define POSTING_BYTES (POSTING_BLOCK / 8)

struct posting {
    uint64_t words[POSTING_WORDS];
};

void posting_set(struct posting *posting, unsigned place) __attribute__((nonnull));
bool posting_has(const struct posting *posting, unsigned place) __attribute__((nonnull));
/** Adds the places of a stored list. ERROR_CORRUPT: it has neither form; `posting` may have changed. */
RESULT posting_add(struct posting *posting, struct bytes list, struct error *err) __attribute__((nonnull));
/** Leaves the places that both have. */
void posting_intersect(struct posting *posting, const struct posting *other) __attribute__((nonnull));
bool posting_is_empty(const struct posting *posting) __attribute__((nonnull));
/** Writes the list, and returns its length: 0 without places. */
size_t posting_write(const struct posting *posting, uint8_t list_out[POSTING_BYTES]) __attribute__((nonnull));
