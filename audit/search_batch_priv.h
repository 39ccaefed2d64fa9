/*
 * audit/search_batch_priv.h -- the terms of the entries of one block, until they are written into the index of searches.
 */
#pragma once

#include "audit/format/search_terms.h"
#include "audit/search_blind_priv.h"
#include "audit/search_store_priv.h"

#define BATCH_TERMS_MAX \
    131072 /* 2 MiB: 32 terms for each entry of a block. A batch that has no room for an entry ends before it */
#define BATCH_BLIND_MAX 32768 /* 1.5 MiB: 8 for each entry */

struct batch_term {
    int64_t key;
    uint8_t subject[32]; /* of a blind term; else zeros */
    uint16_t place;      /* in the block */
};
struct search_batch {
    uint64_t block;
    bool is_first; /* nothing of the block is stored yet */
    size_t open_count, blind_count;
    struct batch_term *open, *blind;
};

RESULT search_batch_new(struct search_batch **batch_out, struct error *err);
void search_batch_begin(struct search_batch *batch, uint64_t block, bool is_first);
/** False: there is no room for the terms of one more entry. */
bool search_batch_has_room(const struct search_batch *batch);
void search_batch_add(struct search_batch *batch, unsigned place, int64_t key);
void search_batch_add_blind(struct search_batch *batch, unsigned place, int64_t key, const uint8_t subject[32]);
/** Merges the terms into the stored lists. In a transaction. */
RESULT search_batch_write(struct search_batch *batch, struct pg *pg, struct error *err);
void search_batch_free(struct search_batch *batch);
DEFINE_OWNED(search_batch);
