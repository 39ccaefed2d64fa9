#include "audit/log_cache_priv.h"

#include <string.h>

#include "base/memory.h"

struct head {
    uint8_t key[LEAF_KEY_ID_SIZE];
    int64_t ordinal;
    uint64_t generation; /* of the cache when the head was stored */
    uint64_t size;       /* of the log then */
};

/* Facts that were stored once are not looked up again. The gateway's role can't delete them; if another role does, the
 * verifier reports it. */
struct stored_facts {
    uint8_t digest[LEAF_FACTS_DIGEST];
    uint64_t attempt; /* the last attempt that wanted them */
    bool is_stored;
};

struct log_cache {
    bool is_known, is_alone; /* is_alone: nobody else appended before the last read */
    struct audit_state state;
    int64_t read_ms;     /* of the monotonic clock */
    uint64_t generation; /* heads of older generations are invalid */
    struct head heads[LOG_CACHE_HEADS];
    uint64_t attempt;
    struct stored_facts facts[LOG_CACHE_FACTS];
};

struct result log_cache_new(struct log_cache **cache_out, struct error *err)
{
    struct log_cache *cache = memory_zeroed(1, sizeof *cache);

    if (cache == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the heads of the log");
    cache->generation = 1;
    *cache_out = cache;
    return SUCCESS;
}

void log_cache_free(struct log_cache *cache)
{
    free(cache);
}

struct result log_cache_compare(const struct log_cache *cache, const struct audit_state *state, struct error *err)
{
    const struct merkle_hash kept = merkle_frontier_root(&cache->state.frontier), read = merkle_frontier_root(&state->frontier);

    if (cache->state.size == 0 || cache->state.size != state->size || cache->state.epoch != state->epoch) return SUCCESS;
    if (merkle_hash_equal(&kept, &read) && cache->state.last_time_ms == state->last_time_ms) return SUCCESS;
    return failure(err, ERROR_FORKED, "the state of the log was changed behind its %llu events", (unsigned long long)state->size);
}

bool log_cache_read(struct log_cache *cache, const struct audit_state *state, int64_t monotonic_ms)
{
    const bool is_ours = cache->state.size == state->size && cache->state.epoch == state->epoch;

    if (!is_ours) cache->generation++;
    cache->state = *state;
    cache->read_ms = monotonic_ms;
    cache->is_known = cache->is_alone = is_ours; /* with other gateways, a wrong cache costs more than a right one saves */
    return is_ours;
}

bool log_cache_is_alone(const struct log_cache *cache)
{
    return cache->is_alone;
}

/* The places that a key may have. An id is the beginning of a SHA-256, so any of its bits serve as a hash. */
static size_t set_of(struct bytes key)
{
    return load_u32(key.data) % (LOG_CACHE_HEADS / LOG_CACHE_WAYS) * LOG_CACHE_WAYS;
}

static bool is_of(const struct log_cache *cache, const struct head *head, struct bytes key)
{
    return head->generation == cache->generation && memcmp(head->key, key.data, sizeof head->key) == 0;
}

static const struct head *find_head(const struct log_cache *cache, struct bytes key)
{
    const struct head *set = &cache->heads[set_of(key)];

    for (size_t i = 0; i < LOG_CACHE_WAYS; i++)
        if (is_of(cache, &set[i], key)) return &set[i];
    return NULL;
}

/* The key's own place, or that of an invalid head, or that of the head that was stored first. */
static struct head *place_of(struct log_cache *cache, struct bytes key)
{
    struct head *set = &cache->heads[set_of(key)], *oldest = set;

    for (size_t i = 0; i < LOG_CACHE_WAYS; i++) {
        if (is_of(cache, &set[i], key)) return &set[i];
        if (set[i].generation != cache->generation) set[i].size = 0;
        if (set[i].size < oldest->size) oldest = &set[i];
    }
    return oldest;
}

static struct stored_facts *facts_of(struct log_cache *cache, const uint8_t *digest)
{
    return &cache->facts[load_u32(digest) % LOG_CACHE_FACTS];
}

void log_cache_begin_facts(struct log_cache *cache)
{
    cache->attempt++;
}

bool log_cache_wants_facts(struct log_cache *cache, const uint8_t digest[LEAF_FACTS_DIGEST])
{
    struct stored_facts *facts = facts_of(cache, digest);
    const bool is_same = memcmp(facts->digest, digest, sizeof facts->digest) == 0;

    if (is_same && (facts->is_stored || facts->attempt == cache->attempt)) return false;
    memcpy(facts->digest, digest, sizeof facts->digest);
    facts->attempt = cache->attempt;
    facts->is_stored = false;
    return true;
}

static void note_facts(struct log_cache *cache, const struct audit_append *append)
{
    for (size_t i = 0; i < append->facts_count; i++) {
        struct stored_facts *facts = facts_of(cache, append->facts_digests[i].data);
        if (memcmp(facts->digest, append->facts_digests[i].data, sizeof facts->digest) == 0) facts->is_stored = true;
    }
}

void log_cache_appended(struct log_cache *cache, const struct audit_append *append, const struct merkle_frontier *frontier)
{
    for (size_t i = 0; i < append->key_count; i++) {
        struct head *head = place_of(cache, append->keys[i]);
        memcpy(head->key, append->keys[i].data, sizeof head->key);
        head->ordinal = append->ordinals[i];
        head->generation = cache->generation;
        head->size = append->old_size + append->count;
    }
    note_facts(cache, append);
    cache->state.size = append->old_size + append->count;
    cache->state.last_time_ms = append->time_ms;
    cache->state.frontier = *frontier;
    cache->is_known = cache->is_alone;
}

void log_cache_forget(struct log_cache *cache)
{
    cache->is_known = false;
}

bool log_cache_state(const struct log_cache *cache, int64_t monotonic_ms, struct audit_state *state_out)
{
    const int64_t age_ms = monotonic_ms - cache->read_ms;

    if (!cache->is_known || age_ms > LOG_CACHE_SYNC_MS) return false;
    *state_out = cache->state;
    state_out->now_ms += age_ms;
    return true;
}

size_t log_cache_heads(const struct log_cache *cache, const struct audit_heads *heads, uint32_t *missing_out)
{
    size_t missing = 0;

    for (size_t i = 0; i < heads->count; i++) {
        const struct head *head = find_head(cache, heads->keys[i]);
        if (head != NULL) heads->ordinals[i] = head->ordinal;
        else missing_out[missing++] = (uint32_t)i;
    }
    return missing;
}
