#include "audit/subject_priv.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "audit/audit_store.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/hkdf.h"
#include "crypto/hmac.h"

#define BUCKETS 1024 /* of a cache of some thousand subjects */

struct subject_cache {
    pthread_mutex_t mutex;
    struct secret *keys; /* one block, because locked memory is scarce and each block costs guard pages */
    struct audit_subject *entries;
    size_t capacity, used;
    uint64_t clock; /* counts uses, for eviction */
    struct audit_subject *buckets[BUCKETS];
};

struct result subject_cache_new(size_t capacity, struct subject_cache **cache_out, struct error *err)
{
    OWNED(subject_cache) *cache = memory_zeroed(1, sizeof *cache);

    if (cache == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the subjects of the log");
    (void)pthread_mutex_init(&cache->mutex, NULL);
    cache->capacity = capacity;
    cache->entries = memory_zeroed(capacity, sizeof *cache->entries);
    if (cache->entries == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the subjects of the log");
    TRY(secret_new(capacity * SUBJECT_KEY_SIZE, &cache->keys, err));
    *cache_out = GIVE(cache);
    return SUCCESS;
}

void subject_cache_free(struct subject_cache *cache)
{
    if (cache == NULL) return;
    secret_free(cache->keys);
    free(cache->entries);
    (void)pthread_mutex_destroy(&cache->mutex);
    free(cache);
}

static struct audit_subject **bucket_of(struct subject_cache *cache, const char *issuer, const char *subject)
{
    return &cache->buckets[hash_bucket(hash_add(hash_add(HASH_BEGIN, issuer), subject), BUCKETS)];
}

static struct audit_subject *find(struct subject_cache *cache, const char *issuer, const char *subject)
{
    struct audit_subject *at = *bucket_of(cache, issuer, subject);

    while (at != NULL && (strcmp(at->issuer, issuer) != 0 || strcmp(at->subject, subject) != 0)) at = at->next;
    if (at == NULL) return NULL;
    at->pins++;
    at->last_used = ++cache->clock;
    return at;
}

struct audit_subject *subject_cache_find(struct subject_cache *cache, const char *issuer, const char *subject)
{
    (void)pthread_mutex_lock(&cache->mutex);
    struct audit_subject *found = find(cache, issuer, subject);
    (void)pthread_mutex_unlock(&cache->mutex);
    return found;
}

static void wipe_key(const struct subject_cache *cache, const struct audit_subject *entry)
{
    secret_wipe(cache->keys->bytes + (size_t)(entry - cache->entries) * SUBJECT_KEY_SIZE, SUBJECT_KEY_SIZE);
}

void subject_cache_forget(struct subject_cache *cache)
{
    (void)pthread_mutex_lock(&cache->mutex);
    memset(cache->buckets, 0, sizeof cache->buckets);
    for (size_t i = 0; i < cache->used; i++) {
        cache->entries[i].is_forgotten = true;
        if (cache->entries[i].pins == 0) wipe_key(cache, &cache->entries[i]);
    }
    (void)pthread_mutex_unlock(&cache->mutex);
}

void subject_cache_release(struct subject_cache *cache, struct audit_subject *subject)
{
    if (subject == NULL) return;
    (void)pthread_mutex_lock(&cache->mutex);
    assert(subject->pins > 0);
    if (--subject->pins == 0 && subject->is_forgotten) wipe_key(cache, subject);
    (void)pthread_mutex_unlock(&cache->mutex);
}

static void unlink_entry(struct subject_cache *cache, struct audit_subject *entry)
{
    struct audit_subject **at = bucket_of(cache, entry->issuer, entry->subject);

    while (*at != entry) {
        assert(*at != NULL); /* each used entry is in the list of its bucket */
        at = &(*at)->next;
    }
    *at = entry->next;
}

/* An unused entry, or the one that was used least recently and is not pinned. */
static struct audit_subject *free_entry(struct subject_cache *cache)
{
    struct audit_subject *oldest = NULL;

    if (cache->used < cache->capacity) return &cache->entries[cache->used++];
    for (size_t i = 0; i < cache->capacity; i++) {
        struct audit_subject *entry = &cache->entries[i];
        if (entry->pins == 0 && (oldest == NULL || entry->last_used < oldest->last_used)) oldest = entry;
    }
    if (oldest != NULL && !oldest->is_forgotten) unlink_entry(cache, oldest);
    return oldest;
}

void subject_pseudonym(const char *const issuer_and_subject[2], const struct secret *key, char hex_out[65])
{
    const struct bytes texts[2] = {bytes_of_text(issuer_and_subject[0]), bytes_of_text(issuer_and_subject[1])};
    uint8_t message[2 * (4 + SUBJECT_TEXT_MAX)], mac[HMAC_SIZE]; /* two texts with their lengths */
    size_t length = 0;

    assert(texts[0].length <= SUBJECT_TEXT_MAX && texts[1].length <= SUBJECT_TEXT_MAX);
    for (size_t i = 0; i < 2; i++) {
        store_u32(message + length, (uint32_t)texts[i].length);
        memcpy(message + length + 4, texts[i].data, texts[i].length);
        length += 4 + texts[i].length;
    }
    hmac_sha256(secret_bytes(key), (struct bytes){message, length}, mac);
    text_hex(mac, sizeof mac, hex_out);
}

static struct result keep(struct subject_cache *cache, const struct audit_subject *resolved, const struct secret *key,
                          struct audit_subject **subject_out, struct error *err)
{
    (void)pthread_mutex_lock(&cache->mutex);
    struct audit_subject *entry = find(cache, resolved->issuer, resolved->subject); /* another thread may have been faster */
    if (entry == NULL && (entry = free_entry(cache)) != NULL) {
        uint8_t *key_bytes = cache->keys->bytes + (size_t)(entry - cache->entries) * SUBJECT_KEY_SIZE;
        struct audit_subject **bucket = bucket_of(cache, resolved->issuer, resolved->subject);
        memcpy(key_bytes, key->bytes, SUBJECT_KEY_SIZE);
        *entry = *resolved;
        entry->key = key_bytes;
        entry->pins = 1;
        entry->last_used = ++cache->clock;
        entry->next = *bucket;
        *bucket = entry;
    }
    (void)pthread_mutex_unlock(&cache->mutex);
    if (entry == NULL) return failure(err, ERROR_LIMIT, "more than %zu subjects act at the same time", cache->capacity);
    *subject_out = entry;
    return SUCCESS;
}

static struct result open_key(struct keyd_client *keyd, struct pg *pg, const uint8_t index[32], struct secret **key_out,
                              struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct audit_subject_row row;
    struct wrapped_key wrapped = {0};

    TRY(audit_subject_find(pg, index, &row, &rows, err));
    if (row.wrapped_key.length > sizeof wrapped.bytes)
        return failure(err, ERROR_CORRUPT, "the stored key of a subject is too long");
    wrapped.version = (uint32_t)row.key_version;
    wrapped.length = row.wrapped_key.length;
    memcpy(wrapped.bytes, row.wrapped_key.data, wrapped.length);
    return keyd_subject_key_open(keyd, index, &wrapped, key_out, err);
}

/* Two gateways may create a subject at once: both use the stored row. */
static struct result make_key(struct keyd_client *keyd, struct pg *pg, const uint8_t index[32], struct secret **key_out,
                              struct error *err)
{
    OWNED(secret) *fresh = NULL;
    struct wrapped_key wrapped;

    TRY(keyd_subject_key_new(keyd, index, &fresh, &wrapped, err));
    const struct audit_subject_row row = {(int32_t)wrapped.version, {wrapped.bytes, wrapped.length}};
    TRY(audit_subject_insert(pg, index, &row, err));
    return open_key(keyd, pg, index, key_out, err);
}

static struct result get_key(struct keyd_client *keyd, struct pg *pg, const uint8_t index[32], struct secret **key_out,
                             struct error *err)
{
    const struct result opened = open_key(keyd, pg, index, key_out, err);

    if (opened.ok || err->kind != ERROR_NOT_FOUND) return opened;
    return make_key(keyd, pg, index, key_out, err);
}

struct result subject_key_find(struct keyd_client *keyd, struct pg *pg, const char *const issuer_and_subject[2], bool makes,
                               struct secret **key_out, struct error *err)
{
    OWNED(secret) *key = NULL;
    uint8_t index[32];

    if (strlen(issuer_and_subject[0]) > SUBJECT_TEXT_MAX || strlen(issuer_and_subject[1]) > SUBJECT_TEXT_MAX)
        return failure(err, ERROR_LIMIT, "an issuer or subject of more than %d bytes", SUBJECT_TEXT_MAX);
    TRY(keyd_subject_index(keyd, issuer_and_subject[0], issuer_and_subject[1], index, err));
    TRY(makes ? get_key(keyd, pg, index, &key, err) : open_key(keyd, pg, index, &key, err));
    if (key->length != SUBJECT_KEY_SIZE) return failure(err, ERROR_CORRUPT, "the key of a subject has a wrong length");
    *key_out = GIVE(key);
    return SUCCESS;
}

struct result subject_cache_resolve(struct subject_cache *cache, struct keyd_client *keyd, struct pg *pg,
                                    const char *const issuer_and_subject[2], struct audit_subject **subject_out,
                                    struct error *err)
{
    OWNED(secret) *key = NULL;
    struct audit_subject resolved = {.pins = 0};
    const struct bytes issuer = bytes_of_text(issuer_and_subject[0]), subject = bytes_of_text(issuer_and_subject[1]);

    if (issuer.length > SUBJECT_TEXT_MAX || subject.length > SUBJECT_TEXT_MAX)
        return failure(err, ERROR_LIMIT, "an issuer or subject of more than %d bytes", SUBJECT_TEXT_MAX);
    memcpy(resolved.issuer, issuer.data, issuer.length);
    memcpy(resolved.subject, subject.data, subject.length);
    TRY(keyd_subject_index(keyd, resolved.issuer, resolved.subject, resolved.index, err));
    TRY(get_key(keyd, pg, resolved.index, &key, err));
    if (key->length != SUBJECT_KEY_SIZE) return failure(err, ERROR_CORRUPT, "the key of a subject has a wrong length");
    subject_pseudonym(issuer_and_subject, key, resolved.pseudonym);
    return keep(cache, &resolved, key, subject_out, err);
}

static struct result derive(struct bytes key, const uint8_t salt[32], const char *label, uint8_t key_out[32], struct error *err)
{
    return hkdf_sha256(key, (struct bytes){salt, 32}, bytes_of_text(label), key_out, 32, err);
}

struct result subject_box_key(const struct secret *key, const uint8_t salt[32], const char *label, uint8_t key_out[32],
                              struct error *err)
{
    return derive(secret_bytes(key), salt, label, key_out, err);
}

struct result subject_payload_key(const uint8_t subject_key[SUBJECT_KEY_SIZE], const uint8_t salt[32], uint8_t key_out[32],
                                  struct error *err)
{
    return derive((struct bytes){subject_key, SUBJECT_KEY_SIZE}, salt, "sijil-pay-v1", key_out, err);
}
