#include "registry/manifest_cache_priv.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"
#include "registry/registry_priv.h"

struct cached_manifest {
    atomic_uint users; /* the cache itself counts as one */
    struct uuid repository;
    uint64_t alterations;
    size_t size; /* of the whole allocation */
    struct manifest_row row;
    const char *reference;
    uint8_t bytes[]; /* the row and the reference are views of these */
};

struct manifest_cache {
    pthread_mutex_t lock;
    size_t bytes, hand; /* hand: the next slot to be emptied if there are too many bytes */
    struct cached_manifest *slots[MANIFEST_CACHE_ROWS];
};

struct result manifest_cache_new(struct manifest_cache **cache_out, struct error *err)
{
    struct manifest_cache *cache = memory_zeroed(1, sizeof *cache);

    if (cache == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for manifests");
    (void)pthread_mutex_init(&cache->lock, NULL);
    *cache_out = cache;
    return SUCCESS;
}

void cached_manifest_free(struct cached_manifest *cached)
{
    if (cached != NULL && atomic_fetch_sub(&cached->users, 1) == 1) free(cached);
}

void manifest_cache_free(struct manifest_cache *cache)
{
    if (cache == NULL) return;
    for (size_t i = 0; i < MANIFEST_CACHE_ROWS; i++) cached_manifest_free(cache->slots[i]);
    (void)pthread_mutex_destroy(&cache->lock);
    free(cache);
}

static size_t index_of(const struct manifest_key *key)
{
    return registry_slot(&key->repository, key->reference, MANIFEST_CACHE_ROWS);
}

static const char *keep_text(uint8_t **at, const char *text)
{
    char *kept = (char *)*at;
    const size_t size = strlen(text) + 1;

    memcpy(kept, text, size);
    *at += size;
    return kept;
}

static struct cached_manifest *copy(const struct manifest_key *key, const struct manifest_row *row)
{
    const size_t texts = strlen(key->reference) + strlen(row->digest) + strlen(row->media_type) + strlen(row->artifact_type) + 4;
    const size_t size = sizeof(struct cached_manifest) + texts + row->sealed.length;
    struct cached_manifest *made = size > MANIFEST_CACHED_MAX ? NULL : memory_zeroed(1, size);

    if (made == NULL) return NULL;
    uint8_t *at = made->bytes;
    atomic_init(&made->users, 1);
    made->repository = key->repository;
    made->alterations = key->alterations;
    made->size = size;
    made->row = *row;
    made->reference = keep_text(&at, key->reference);
    made->row.digest = keep_text(&at, row->digest);
    made->row.media_type = keep_text(&at, row->media_type);
    made->row.artifact_type = keep_text(&at, row->artifact_type);
    made->row.sealed = (struct bytes){at, row->sealed.length};
    memcpy(at, row->sealed.data, row->sealed.length);
    return made;
}

/* With the lock held. */
static void empty(struct manifest_cache *cache, size_t index)
{
    struct cached_manifest *old = cache->slots[index];

    if (old == NULL) return;
    cache->bytes -= old->size;
    cache->slots[index] = NULL;
    cached_manifest_free(old);
}

void manifest_cache_put(struct manifest_cache *cache, const struct manifest_key *key, const struct manifest_row *row)
{
    struct cached_manifest *made = copy(key, row);
    const size_t index = index_of(key);

    if (made == NULL) return;
    (void)pthread_mutex_lock(&cache->lock);
    empty(cache, index);
    cache->bytes += made->size;
    cache->slots[index] = made;
    for (; cache->bytes > MANIFEST_CACHE_BYTES; cache->hand = (cache->hand + 1) % MANIFEST_CACHE_ROWS)
        if (cache->hand != index) empty(cache, cache->hand);
    (void)pthread_mutex_unlock(&cache->lock);
}

static bool is_for(const struct cached_manifest *cached, const struct manifest_key *key)
{
    return cached != NULL && cached->alterations == key->alterations && uuid_equal(&cached->repository, &key->repository) &&
           strcmp(cached->reference, key->reference) == 0;
}

struct cached_manifest *manifest_cache_get(struct manifest_cache *cache, const struct manifest_key *key,
                                           struct manifest_row *row_out)
{
    struct cached_manifest *cached = NULL;
    const size_t index = index_of(key);

    (void)pthread_mutex_lock(&cache->lock);
    if (is_for(cache->slots[index], key)) {
        cached = cache->slots[index];
        atomic_fetch_add(&cached->users, 1);
        *row_out = cached->row;
    }
    (void)pthread_mutex_unlock(&cache->lock);
    return cached;
}
