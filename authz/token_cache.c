#include "authz/token_cache.h"

#include <pthread.h>
#include <string.h>

#include "base/memory.h"

_Static_assert(JSON_HAVE_ATOMIC_BUILTINS || JSON_HAVE_SYNC_BUILTINS,
               "jansson counts references without atomic operations here: build it with them");

#define SHARDS   16 /* threads rarely meet at one lock */
#define SETS     64 /* in a shard; SHARDS * SETS * WAYS = 4096 tokens */
#define WAYS     4
#define KEPT_MAX 2048 /* characters; our tokens have 600 to 1,000, which take 3 KiB when parsed */

struct entry {
    uint8_t token[32];
    uint64_t serial; /* 0: empty */
    int64_t expires_s;
    struct jws opened; /* header NULL: not kept */
};

struct token_cache {
    struct shard {
        pthread_mutex_t lock;
        struct entry sets[SETS][WAYS];
    } shards[SHARDS];
};

struct result token_cache_new(struct token_cache **cache_out, struct error *err)
{
    OWNED(token_cache) *cache = memory_zeroed(1, sizeof *cache);

    if (cache == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the cache of tokens");
    for (size_t i = 0; i < SHARDS; i++) (void)pthread_mutex_init(&cache->shards[i].lock, NULL);
    *cache_out = GIVE(cache);
    return SUCCESS;
}

static struct shard *shard_of(struct token_cache *cache, const uint8_t token_sha256[32])
{
    return &cache->shards[token_sha256[0] % SHARDS];
}

static struct entry *set_of(struct shard *shard, const uint8_t token_sha256[32])
{
    return shard->sets[token_sha256[1] % SETS];
}

uint64_t token_cache_find(struct token_cache *cache, const uint8_t token_sha256[32], struct bytes text, int64_t now_s,
                          struct jws *token_out)
{
    struct shard *shard = shard_of(cache, token_sha256);
    const struct entry *set = set_of(shard, token_sha256);
    uint64_t serial = 0;

    (void)pthread_mutex_lock(&shard->lock);
    for (size_t i = 0; i < WAYS && serial == 0; i++) {
        if (now_s >= set[i].expires_s || memcmp(set[i].token, token_sha256, sizeof set[i].token) != 0) continue;
        serial = set[i].serial;
        if (serial != 0 && set[i].opened.header != NULL) jws_share(&set[i].opened, text, token_out);
    }
    (void)pthread_mutex_unlock(&shard->lock);
    return serial;
}

void token_cache_add(struct token_cache *cache, const uint8_t token_sha256[32], const struct jws *token, uint64_t key_serial,
                     int64_t expires_s)
{
    struct shard *shard = shard_of(cache, token_sha256);
    struct entry *set = set_of(shard, token_sha256), *slot = &set[0];
    struct jws opened = {0};

    if (token->text.length <= KEPT_MAX) jws_share(token, (struct bytes){0}, &opened);
    (void)pthread_mutex_lock(&shard->lock);
    for (size_t i = 1; i < WAYS; i++)
        if (set[i].expires_s < slot->expires_s) slot = &set[i];
    struct jws old = slot->opened;
    *slot = (struct entry){.serial = key_serial, .expires_s = expires_s, .opened = opened};
    memcpy(slot->token, token_sha256, sizeof slot->token);
    (void)pthread_mutex_unlock(&shard->lock);
    jws_done(&old);
}

void token_cache_free(struct token_cache *cache)
{
    if (cache == NULL) return;
    for (size_t i = 0; i < SHARDS; i++) {
        for (size_t k = 0; k < SETS * WAYS; k++) jws_done(&cache->shards[i].sets[k / WAYS][k % WAYS].opened);
        (void)pthread_mutex_destroy(&cache->shards[i].lock);
    }
    free(cache);
}
