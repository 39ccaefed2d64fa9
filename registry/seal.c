#include "registry/seal_priv.h"

#include <string.h>

#include "crypto/aead.h"
#include "crypto/hkdf.h"
#include "registry/registry_priv.h"

/* A commitment to the key's value, as for a blob's key. */
static struct result commit_to(const struct secret *key, const struct uuid *id, uint8_t commitment_out[32], struct error *err)
{
    return hkdf_sha256(secret_bytes(key), uuid_bytes(id), bytes_of_text("sijil project key commit"), commitment_out, 32, err);
}

struct result project_key_new(struct registry *registry, const struct resource *where, struct key_record *record_out,
                              struct error *err)
{
    const struct key_scope scope = registry_key_scope(where);
    struct key_record record = {.id = uuid_random()};
    OWNED(secret) *key = NULL;

    TRY(secret_random(DATA_KEY_SIZE, &key, err));
    TRY(commit_to(key, &record.id, record.commitment, err));
    const struct key_binding binding = key_binding_of(&scope, &record.id, record.commitment);
    TRY(keyd_wrap(registry->keyd, &binding, key, &record.wrapped, err));
    *record_out = record;
    return SUCCESS;
}

struct associated {
    uint8_t bytes[16 + 16 + DIGEST_TEXT_SIZE + 16];
    size_t length;
};

static struct associated associate(const struct sealing *sealing)
{
    const size_t length = strlen(sealing->digest);
    struct associated associated = {.length = 32 + length};

    memcpy(associated.bytes, sealing->where->project.bytes, 16);
    memcpy(associated.bytes + 16, sealing->where->repository.bytes, 16);
    memcpy(associated.bytes + 32, sealing->digest, length);
    if (sealing->run != NULL) {
        memcpy(associated.bytes + associated.length, sealing->run->bytes, 16);
        associated.length += 16;
    }
    return associated;
}

/* The derived key has a separate cache entry, so most manifests need neither an unwrap nor a derivation. */
static struct result derive_key(struct registry *registry, const struct sealing *sealing, uint8_t key_out[XCHACHA_KEY_SIZE],
                                struct error *err)
{
    uint8_t commitment[32];
    OWNED(secret) *key = NULL;

    TRY(registry_unwrap(registry, sealing->where, sealing->key, &key, err));
    TRY(commit_to(key, &sealing->key->id, commitment, err));
    if (memcmp(commitment, sealing->key->commitment, sizeof commitment) != 0)
        return failure(err, ERROR_CORRUPT, "the project's key is not the one that its row commits to");
    return hkdf_sha256(secret_bytes(key), (struct bytes){0}, bytes_of_text("sijil manifest 1"), key_out, XCHACHA_KEY_SIZE, err);
}

/* The name of the derived key in the cache. */
static void name_key(const struct sealing *sealing, uint8_t name_out[KEY_CACHE_NAME_SIZE])
{
    const struct key_scope scope = registry_key_scope(sealing->where);

    key_cache_name(&scope, sealing->key, name_out);
    name_out[0] = (uint8_t)~name_out[0];
}

/* The caller wipes key_out. */
static struct result manifest_key(struct registry *registry, const struct sealing *sealing, uint8_t key_out[XCHACHA_KEY_SIZE],
                                  struct error *err)
{
    uint8_t name[KEY_CACHE_NAME_SIZE];

    name_key(sealing, name);
    if (key_cache_get(registry->keys, name, key_out)) return SUCCESS;
    TRY(derive_key(registry, sealing, key_out, err));
    key_cache_put(registry->keys, name, &sealing->key->id, key_out);
    return SUCCESS;
}

struct result manifest_seal(struct registry *registry, const struct sealing *sealing, struct bytes plain, struct buffer *sealed,
                            struct error *err)
{
    const struct associated associated = associate(sealing);
    const size_t length = plain.length + BOX_OVERHEAD;
    uint8_t key[XCHACHA_KEY_SIZE], *reserved = NULL;

    TRY(buffer_reserve(sealed, length, &reserved, err));
    TRY(manifest_key(registry, sealing, key, err));
    box_seal(key, (struct bytes){associated.bytes, associated.length}, plain, reserved);
    secret_wipe(key, sizeof key);
    sealed->length += length;
    return SUCCESS;
}

/* Wipes the key, with success or not. */
static struct result open_box(uint8_t key[XCHACHA_KEY_SIZE], const struct sealing *sealing, struct bytes sealed,
                              struct buffer *plain, struct error *err)
{
    const struct associated associated = associate(sealing);
    uint8_t *reserved = NULL;
    struct result result = buffer_reserve(plain, sealed.length - BOX_OVERHEAD, &reserved, err);

    if (result.ok) result = box_open(key, (struct bytes){associated.bytes, associated.length}, sealed, reserved, err);
    if (result.ok) plain->length += sealed.length - BOX_OVERHEAD;
    secret_wipe(key, XCHACHA_KEY_SIZE);
    return result;
}

struct result manifest_unseal(struct registry *registry, const struct sealing *sealing, struct bytes sealed, struct buffer *plain,
                              struct error *err)
{
    uint8_t key[XCHACHA_KEY_SIZE];

    if (sealed.length < BOX_OVERHEAD) return failure(err, ERROR_CORRUPT, "a sealed manifest of %zu bytes", sealed.length);
    TRY(manifest_key(registry, sealing, key, err));
    return open_box(key, sealing, sealed, plain, err);
}

bool manifest_unseal_cached(struct registry *registry, const struct sealing *sealing, struct bytes sealed, struct buffer *plain)
{
    uint8_t name[KEY_CACHE_NAME_SIZE], key[XCHACHA_KEY_SIZE];
    struct error ignored = {0};

    name_key(sealing, name);
    return sealed.length >= BOX_OVERHEAD && key_cache_get(registry->keys, name, key) &&
           open_box(key, sealing, sealed, plain, &ignored).ok;
}
