#include "crypto/ed25519.h"

#include <assert.h>

#include "crypto/sodium_priv.h"

/* libsodium's secret key is seed || public. It is computed each time, so only seeds are kept. */
static struct result expand(const struct secret *seed, uint8_t public_out[ED25519_PUBLIC_SIZE], struct secret **key_out,
                            struct error *err)
{
    OWNED(secret) *key = NULL;

    assert(seed->length == ED25519_SEED_SIZE);
    TRY(secret_new(crypto_sign_SECRETKEYBYTES, &key, err));
    (void)crypto_sign_seed_keypair(public_out, key->bytes, seed->bytes);
    *key_out = GIVE(key);
    return SUCCESS;
}

struct result ed25519_public(const struct secret *seed, uint8_t public_out[ED25519_PUBLIC_SIZE], struct error *err)
{
    OWNED(secret) *key = NULL;

    return expand(seed, public_out, &key, err);
}

struct result ed25519_sign(const struct secret *seed, struct bytes message, uint8_t signature_out[ED25519_SIGNATURE_SIZE],
                           struct error *err)
{
    OWNED(secret) *key = NULL;
    uint8_t public_key[ED25519_PUBLIC_SIZE];

    TRY(expand(seed, public_key, &key, err));
    (void)crypto_sign_detached(signature_out, NULL, message.data, message.length, key->bytes);
    return SUCCESS;
}

bool ed25519_verify(const uint8_t public_key[ED25519_PUBLIC_SIZE], struct bytes message,
                    const uint8_t signature[ED25519_SIGNATURE_SIZE])
{
    sodium_ready();
    return crypto_sign_verify_detached(signature, message.data, message.length, public_key) == 0;
}
