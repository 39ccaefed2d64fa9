#include "registry/key_cache.h"

#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "crypto/digest.h"

#define WAYS 4 /* slots that one name may use; a full set is rare while less than half of all slots are in use */

struct slot {
    uint8_t name[KEY_CACHE_NAME_SIZE];
    struct uuid id;
    int64_t expires_ms; /* monotonic; 0: free */
};

struct key_cache {
    pthread_mutex_t lock;
    unsigned lifetime_ms;
    size_t sets;
    struct slot *slots; /* sets * WAYS; the key of slot i lies at slab + i * DATA_KEY_SIZE */
    struct secret *slab;
};

struct naming {
    uint8_t bytes[512]; /* the fields below are at most 16 + 16 + 64 + 16 + 32 + 4 + 256 */
    size_t length;
};

static void add(struct naming *naming, const void *data, size_t length)
{
    memcpy(naming->bytes + naming->length, data, length);
    naming->length += length;
}

void key_cache_name(const struct key_scope *scope, const struct key_record *record, uint8_t name_out[KEY_CACHE_NAME_SIZE])
{
    struct naming naming = {0};
    uint8_t version[4];

    store_u32(version, record->wrapped.version);
    add(&naming, scope->organisation.bytes, sizeof scope->organisation.bytes);
    add(&naming, scope->project.bytes, sizeof scope->project.bytes);
    /* Padded with zeros to its full size, so that no field runs into the next. */
    memcpy(naming.bytes + naming.length, scope->region, strnlen(scope->region, sizeof scope->region));
    naming.length += sizeof scope->region;
    add(&naming, record->id.bytes, sizeof record->id.bytes);
    add(&naming, record->commitment, sizeof record->commitment);
    add(&naming, version, sizeof version);
    add(&naming, record->wrapped.bytes, record->wrapped.length);
    sha256_of((struct bytes){naming.bytes, naming.length}, name_out);
}

struct result key_cache_new(size_t capacity, unsigned lifetime_ms, struct key_cache **cache_out, struct error *err)
{
    const size_t sets = (capacity + WAYS - 1) / WAYS;

    OWNED(key_cache) *cache = memory_zeroed(1, sizeof *cache);
    if (cache == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the key cache");
    cache->lifetime_ms = lifetime_ms;
    cache->sets = sets > 0 ? sets : 1;
    (void)pthread_mutex_init(&cache->lock, NULL);
    cache->slots = memory_zeroed(cache->sets * WAYS, sizeof *cache->slots);
    if (cache->slots == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the key cache");
    TRY(secret_new(cache->sets * WAYS * DATA_KEY_SIZE, &cache->slab, err));
    *cache_out = GIVE(cache);
    return SUCCESS;
}

static size_t first_place(const struct key_cache *cache, const uint8_t name[KEY_CACHE_NAME_SIZE])
{
    return (size_t)(load_u64(name) % cache->sets) * WAYS;
}

static uint8_t *key_at(struct key_cache *cache, size_t slot)
{
    return cache->slab->bytes + slot * DATA_KEY_SIZE;
}

bool key_cache_get(struct key_cache *cache, const uint8_t name[KEY_CACHE_NAME_SIZE], uint8_t key_out[DATA_KEY_SIZE])
{
    const size_t first = first_place(cache, name);
    const int64_t now_ms = clock_monotonic_ms();
    bool found = false;

    (void)pthread_mutex_lock(&cache->lock);
    for (size_t i = first; i < first + WAYS && !found; i++) {
        struct slot *slot = &cache->slots[i];
        if (slot->expires_ms == 0 || memcmp(slot->name, name, KEY_CACHE_NAME_SIZE) != 0) continue;
        found = slot->expires_ms > now_ms;
        if (found) {
            memcpy(key_out, key_at(cache, i), DATA_KEY_SIZE);
        } else {
            secret_wipe(key_at(cache, i), DATA_KEY_SIZE);
            slot->expires_ms = 0;
        }
    }
    (void)pthread_mutex_unlock(&cache->lock);
    return found;
}

void key_cache_put(struct key_cache *cache, const uint8_t name[KEY_CACHE_NAME_SIZE], const struct uuid *id,
                   const uint8_t key[DATA_KEY_SIZE])
{
    const size_t first = first_place(cache, name);
    size_t chosen = first;

    (void)pthread_mutex_lock(&cache->lock);
    for (size_t i = first; i < first + WAYS; i++) {
        if (memcmp(cache->slots[i].name, name, KEY_CACHE_NAME_SIZE) == 0) {
            chosen = i;
            break;
        }
        if (cache->slots[i].expires_ms < cache->slots[chosen].expires_ms) chosen = i;
    }
    memcpy(cache->slots[chosen].name, name, KEY_CACHE_NAME_SIZE);
    cache->slots[chosen].id = *id;
    cache->slots[chosen].expires_ms = clock_monotonic_ms() + cache->lifetime_ms;
    memcpy(key_at(cache, chosen), key, DATA_KEY_SIZE);
    (void)pthread_mutex_unlock(&cache->lock);
}

size_t key_cache_expire(struct key_cache *cache)
{
    const int64_t now_ms = clock_monotonic_ms();
    size_t count = 0;

    (void)pthread_mutex_lock(&cache->lock);
    for (size_t i = 0; i < cache->sets * WAYS; i++) {
        if (cache->slots[i].expires_ms == 0 || cache->slots[i].expires_ms > now_ms) continue;
        secret_wipe(key_at(cache, i), DATA_KEY_SIZE);
        cache->slots[i] = (struct slot){0};
        count++;
    }
    (void)pthread_mutex_unlock(&cache->lock);
    return count;
}

/* Ids are random: their first two bytes are a good filter before thousands are compared. */
static size_t bit_of(const struct uuid *id)
{
    return (size_t)id->bytes[0] << 8 | id->bytes[1];
}

static bool is_among(const struct uuid *id, const struct uuid *ids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (uuid_equal(id, &ids[i])) return true;
    return false;
}

void key_cache_forget(struct key_cache *cache, const struct uuid *ids, size_t count)
{
    uint8_t filter[65536 / 8] = {0}; /* a bit for each pair of first bytes */

    for (size_t i = 0; i < count; i++) filter[bit_of(&ids[i]) / 8] |= (uint8_t)(1U << bit_of(&ids[i]) % 8);
    (void)pthread_mutex_lock(&cache->lock);
    for (size_t i = 0; i < cache->sets * WAYS; i++) {
        const size_t bit = bit_of(&cache->slots[i].id);
        if (cache->slots[i].expires_ms == 0 || (filter[bit / 8] & 1U << bit % 8) == 0) continue;
        if (!is_among(&cache->slots[i].id, ids, count)) continue;
        secret_wipe(key_at(cache, i), DATA_KEY_SIZE);
        cache->slots[i] = (struct slot){0};
    }
    (void)pthread_mutex_unlock(&cache->lock);
}

void key_cache_clear(struct key_cache *cache)
{
    (void)pthread_mutex_lock(&cache->lock);
    memset(cache->slots, 0, cache->sets * WAYS * sizeof *cache->slots);
    secret_wipe(cache->slab->bytes, cache->slab->length);
    (void)pthread_mutex_unlock(&cache->lock);
}

void key_cache_free(struct key_cache *cache)
{
    if (cache == NULL) return;
    (void)pthread_mutex_destroy(&cache->lock);
    secret_free(cache->slab);
    free(cache->slots);
    free(cache);
}
