/*
 * audit/search_walk_priv.h -- walks through the blocks of the index that may have an event which meets all conditions.
 *
 * Each condition is a group of keys, of which a block needs one. The walk leaps: the group that is behind goes on to the block of the group
 * that is ahead. So a rare condition makes it skip the blocks of the others. Memory: POSTING_BLOCKS_MAX rows of each key, POSTING_SUBJECTS_MAX of
 * one of an address or a network, and as many lists of a country beside it.
 */
#pragma once

#include "audit/search_store_priv.h"

#define SEARCH_GROUPS_MAX (SEARCH_FIELD_COUNT + 2) /* one for each condition, and the scope of the permit */
#define WALK_KEYS_MAX     64                       /* of a group: a value's keys of as many years */

struct search_walk;

RESULT search_walk_new(struct pg *pg, bool ascending, struct search_walk **walk_out, struct error *err) __attribute__((nonnull));
/** One condition: `count` keys, at most WALK_KEYS_MAX. Without a key no block has it. */
void search_walk_add(struct search_walk *walk, const struct posting_key *keys, size_t count) __attribute__((nonnull(1)));
/** No condition was added: search_walk_next() can't be called. */
bool search_walk_is_free(const struct search_walk *walk) __attribute__((nonnull));
/**
 * The next block from `*block` on, in the order of the walk, that all groups have, and the places that meet all conditions; perhaps none.
 * *is_end_out: there is no such block. If time ran out (`until_ms` of clock_monotonic_ms()), *is_late_out is true, and *block is where to go
 * on: no block before it has to be looked at again.
 */
struct walk_step {
    uint64_t block;
    int64_t until_ms;
    bool is_end, is_late;
    struct posting places;
};
RESULT search_walk_next(struct search_walk *walk, struct walk_step *step, struct error *err) __attribute__((nonnull));
void search_walk_free(struct search_walk *walk);
DEFINE_OWNED(search_walk);
