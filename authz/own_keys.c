#include "authz/own_keys_priv.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "authz/claims.h"
#include "base/memory.h"
#include "crypto/ecdsa.h"

struct own_keys {
    struct issuer *issuer;
    pthread_mutex_t lock; /* of the next */
    struct buffer jwks;   /* those of the issuer */
};

static struct result write_jwks(const uint8_t points[][ECDSA_PUBLIC_SIZE], size_t count, struct buffer *jwks, struct error *err)
{
    TRY(buffer_add_text(jwks, "{\"keys\":[", err));
    for (size_t i = 0; i < count; i++) {
        if (i > 0) TRY(buffer_add_u8(jwks, ',', err));
        TRY(ecdsa_jwk(points[i], jwks, err));
    }
    return buffer_add_text(jwks, "]}", err);
}

static struct result make_issuer(const struct authenticator_options *options, struct own_keys *keys, struct error *err)
{
    uint8_t point[1][ECDSA_PUBLIC_SIZE];
    struct issuer_record record = {
        .algorithms = 1U << JOSE_ES256, .types = 1U << JWS_TYPE_REGISTRY, .lifetime_max_s = REGISTRY_TOKEN_SECONDS_MAX};

    memcpy(point[0], options->token_public, sizeof point[0]);
    TRY(write_jwks((const uint8_t(*)[ECDSA_PUBLIC_SIZE])point, 1, &keys->jwks, err));
    record.jwks = buffer_text(&keys->jwks);
    (void)snprintf(record.url, sizeof record.url, "%s", options->issuer);
    (void)snprintf(record.audience, sizeof record.audience, "%s", options->service);
    return issuer_new(&record, &keys->issuer, err);
}

struct result own_keys_new(const struct authenticator_options *options, struct own_keys **keys_out, struct error *err)
{
    OWNED(own_keys) *keys = memory_zeroed(1, sizeof *keys);

    if (keys == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the keys of tokens");
    (void)pthread_mutex_init(&keys->lock, NULL);
    keys->jwks = BUFFER(AUTHENTICATOR_JWKS_MAX);
    TRY(make_issuer(options, keys, err));
    *keys_out = GIVE(keys);
    return SUCCESS;
}

const struct issuer *own_keys_issuer(const struct own_keys *keys)
{
    return keys->issuer;
}

struct result own_keys_set(struct own_keys *keys, const uint8_t points[][ECDSA_PUBLIC_SIZE], size_t count, struct error *err)
{
    struct buffer OWNED_BUFFER jwks = BUFFER(AUTHENTICATOR_JWKS_MAX);
    struct result result = SUCCESS;

    TRY(write_jwks(points, count, &jwks, err));
    (void)pthread_mutex_lock(&keys->lock);
    const bool is_new = strcmp(buffer_text(&jwks), buffer_text(&keys->jwks)) != 0;
    if (is_new) result = issuer_replace_keys(keys->issuer, buffer_text(&jwks), err);
    if (is_new && result.ok) {
        const struct buffer old = keys->jwks;
        keys->jwks = jwks;
        jwks = old;
    }
    (void)pthread_mutex_unlock(&keys->lock);
    return result;
}

struct result own_keys_write(struct own_keys *keys, struct buffer *jwks, struct error *err)
{
    (void)pthread_mutex_lock(&keys->lock);
    const struct result result = buffer_add(jwks, keys->jwks.data, keys->jwks.length, err);
    (void)pthread_mutex_unlock(&keys->lock);
    return result;
}

void own_keys_free(struct own_keys *keys)
{
    if (keys == NULL) return;
    issuer_free(keys->issuer);
    buffer_done(&keys->jwks);
    (void)pthread_mutex_destroy(&keys->lock);
    free(keys);
}
