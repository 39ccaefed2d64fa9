/*
 * bench/log_bulk.h -- the parts of log_bulk: numbers under keys, tiles, and the index of searches.
 */
#pragma once

#include "audit/event_priv.h"
#include "audit/format/tile.h"
#include "audit/search_batch_priv.h"
#include "bench/log_copy.h"

/* ---- log_bulk_keys.c ---- */

#define GROUP_EVENTS 256 /* as many as 256 clients have under way: one row for each key of them */

struct bulk_key {
    uint8_t id[LEAF_KEY_ID_SIZE];
    bool is_used;
    int64_t ordinal;
    size_t uses, next; /* in the group; where its next number goes */
};
struct bulk_keys {
    struct bulk_key *slots;
    size_t count, touched_count, sequence_count;
    struct bulk_key *touched[GROUP_EVENTS * LEAF_KEYS_MAX], *used[GROUP_EVENTS * LEAF_KEYS_MAX];
    int64_t used_by[GROUP_EVENTS * LEAF_KEYS_MAX], sequences[GROUP_EVENTS * LEAF_KEYS_MAX];
};
/** Reads the heads of all keys. */
void bulk_keys_init(struct bulk_keys *keys, struct log_copy *log);
/** Gives the event its numbers under its keys. */
void bulk_keys_number(struct bulk_keys *keys, struct leaf *leaf);
/** Writes the rows of a group, and begins the next one. */
void bulk_keys_write(struct bulk_keys *keys, struct log_copy *runs);

/* ---- log_bulk_index.c ---- */

struct bulk_index;
/** The index of searches, written by threads of its own, a block each. `from`: the first entry. */
RESULT bulk_index_new(const char *conninfo, struct keyd_client *keyd, uint64_t from, struct bulk_index **index_out,
                      struct error *err);
/** An event in the order of the log; `sealer` and `address` are NULL if nothing is sealed for it. */
void bulk_index_add(struct bulk_index *index, const struct leaf *leaf, const struct audit_subject *sealer, const char *address,
                    const char *country);
/** Waits for all whole blocks; returns the number of entries that the index knows. The rest is left to a gateway. */
uint64_t bulk_index_end(struct bulk_index *index);
