/*
 * registry/key_cache.h -- a cache of unwrapped keys, in one locked slab, for a bounded time.
 *
 * Rule: a key's name must cover everything that sijil-keyd checked when it unwrapped the key (key_cache_name()). So a
 * cached key is never used where sijil-keyd would refuse to unwrap it. For any number of threads.
 */
#pragma once

#include "crypto/keyd_client.h"

struct key_cache;

#define KEY_CACHE_NAME_SIZE 32

/** A wrapped key, as in its row. */
struct key_record {
    struct uuid id; /* of the blob, or of the project's key */
    uint8_t commitment[32];
    struct wrapped_key wrapped;
};

/** A hash over scope, id, commitment and wrapped bytes. */
void key_cache_name(const struct key_scope *scope, const struct key_record *record, uint8_t name_out[KEY_CACHE_NAME_SIZE]);

/** Room for at least `capacity` keys; each is served for `lifetime_ms`, and wiped by the next key_cache_expire(). ERROR_NO_MEMORY. */
RESULT key_cache_new(size_t capacity, unsigned lifetime_ms, struct key_cache **cache_out, struct error *err);
/** False if it is not in the cache, or too old. The caller wipes key_out. */
bool key_cache_get(struct key_cache *cache, const uint8_t name[KEY_CACHE_NAME_SIZE], uint8_t key_out[DATA_KEY_SIZE]);
/** Adds a key. If the set is full, evicts the key that would expire first. `id` is that of the record. */
void key_cache_put(struct key_cache *cache, const uint8_t name[KEY_CACHE_NAME_SIZE], const struct uuid *id,
                   const uint8_t key[DATA_KEY_SIZE]);
/** Wipes the keys of these records, which were forgotten. */
void key_cache_forget(struct key_cache *cache, const struct uuid *ids, size_t count);
/** Wipes keys that are too old, also if nobody asks for them again. Returns how many. */
size_t key_cache_expire(struct key_cache *cache);
/** Wipes all keys, because a shredding was announced. */
void key_cache_clear(struct key_cache *cache);
void key_cache_free(struct key_cache *cache);
DEFINE_OWNED(key_cache);
