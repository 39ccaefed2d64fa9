/*
 * audit/log_cache_priv.h -- the state of the log after this gateway's last append, so that the next append need not read it
 * first.
 *
 * The cache may be wrong, because another gateway may have appended since. An append that uses the cache has a fence: unless
 * the cache is right, it writes nothing (audit_open_in_one_trip()). Only the group thread uses the cache.
 */
#pragma once

#include "audit/audit_store.h"
#include "audit/format/leaf.h"
#include "base/owned.h"

#define LOG_CACHE_HEADS   32768 /* keys. 1.25 MiB */
#define LOG_CACHE_WAYS    8 /* places that one key may have: with one, two of 300 keys that are used all the time had the same */
#define LOG_CACHE_FACTS   4096 /* digests of stored facts, in the same way. 192 KiB */
#define LOG_CACHE_SYNC_MS 1000 /* after this time the database's clock is read again */

struct log_cache;

RESULT log_cache_new(struct log_cache **cache_out, struct error *err);
void log_cache_free(struct log_cache *cache);
DEFINE_OWNED(log_cache);

/** For a state that was read under the log's lock. ERROR_FORKED: no other gateway appended, and yet the state
 *  differs from the state that this gateway left. Call it before log_cache_read(). */
RESULT log_cache_compare(const struct log_cache *cache, const struct audit_state *state, struct error *err);
/** Takes a state that was read under the log's lock. The cached heads stay valid unless another gateway appended: then it returns false. */
bool log_cache_read(struct log_cache *cache, const struct audit_state *state, int64_t monotonic_ms);
/** Takes the state after `append`. */
void log_cache_appended(struct log_cache *cache, const struct audit_append *append, const struct merkle_frontier *frontier);
/** Empties the cache until the next read, because it was wrong or may be wrong. */
void log_cache_forget(struct log_cache *cache);

/** The state of the log as the cache knows it; false: the caller must read it from the database. */
bool log_cache_state(const struct log_cache *cache, int64_t monotonic_ms, struct audit_state *state_out);
/** Sets heads->ordinals of the keys that are cached. Returns the number of the others, whose places are in missing_out. */
size_t log_cache_heads(const struct log_cache *cache, const struct audit_heads *heads, uint32_t *missing_out);
/** Whether nobody else appended before the last read: then the next read probably leaves the cached heads valid. */
bool log_cache_is_alone(const struct log_cache *cache);

/** Begins another attempt to append: facts that an earlier attempt did not store are wanted again. */
void log_cache_begin_facts(struct log_cache *cache);
/** Whether facts of this digest must be stored with the append. False: they are stored, or this attempt includes them already. */
bool log_cache_wants_facts(struct log_cache *cache, const uint8_t digest[LEAF_FACTS_DIGEST]);
