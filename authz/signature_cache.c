#include "authz/signature_cache.h"

#include <pthread.h>
#include <string.h>

#include "base/memory.h"

#define SHARDS 16  /* threads rarely meet at one lock */
#define SETS   128 /* in a shard; SHARDS * SETS * WAYS = 8192 tokens, half a megabyte */
#define WAYS   4

struct entry {
    uint8_t token[32];
    uint64_t serial; /* 0: empty */
    int64_t expires_s;
};

struct signature_cache {
    struct shard {
        pthread_mutex_t lock;
        struct entry sets[SETS][WAYS];
    } shards[SHARDS];
};

struct result signature_cache_new(struct signature_cache **cache_out, struct error *err)
{
    OWNED(signature_cache) *cache = memory_zeroed(1, sizeof *cache);

    if (cache == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the cache of signatures");
    for (size_t i = 0; i < SHARDS; i++) (void)pthread_mutex_init(&cache->shards[i].lock, NULL);
    *cache_out = GIVE(cache);
    return SUCCESS;
}

static struct shard *shard_of(struct signature_cache *cache, const uint8_t token_sha256[32])
{
    return &cache->shards[token_sha256[0] % SHARDS];
}

static struct entry *set_of(struct shard *shard, const uint8_t token_sha256[32])
{
    return shard->sets[token_sha256[1] % SETS];
}

bool signature_cache_has(struct signature_cache *cache, const uint8_t token_sha256[32], uint64_t key_serial,
                         int64_t now_s)
{
    struct shard *shard = shard_of(cache, token_sha256);
    const struct entry *set = set_of(shard, token_sha256);
    bool found = false;

    (void)pthread_mutex_lock(&shard->lock);
    for (size_t i = 0; i < WAYS && !found; i++)
        found = set[i].serial == key_serial && now_s < set[i].expires_s &&
                memcmp(set[i].token, token_sha256, sizeof set[i].token) == 0;
    (void)pthread_mutex_unlock(&shard->lock);
    return found && key_serial != 0;
}

void signature_cache_add(struct signature_cache *cache, const uint8_t token_sha256[32], uint64_t key_serial,
                         int64_t expires_s)
{
    struct shard *shard = shard_of(cache, token_sha256);
    struct entry *set = set_of(shard, token_sha256), *place = &set[0];

    (void)pthread_mutex_lock(&shard->lock);
    for (size_t i = 1; i < WAYS; i++)
        if (set[i].expires_s < place->expires_s) place = &set[i];
    memcpy(place->token, token_sha256, sizeof place->token);
    place->serial = key_serial;
    place->expires_s = expires_s;
    (void)pthread_mutex_unlock(&shard->lock);
}

void signature_cache_free(struct signature_cache *cache)
{
    if (cache == NULL) return;
    for (size_t i = 0; i < SHARDS; i++) (void)pthread_mutex_destroy(&cache->shards[i].lock);
    free(cache);
}
