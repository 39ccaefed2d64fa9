#include "crypto/hmac.h"

#include "crypto/sodium_priv.h"

void hmac_sha256(struct bytes key, struct bytes message, uint8_t out[HMAC_SIZE])
{
    crypto_auth_hmacsha256_state state;

    sodium_ready();
    crypto_auth_hmacsha256_init(&state, key.data, key.length);
    crypto_auth_hmacsha256_update(&state, message.data, message.length);
    crypto_auth_hmacsha256_final(&state, out);
    sodium_memzero(&state, sizeof state);
}

_Static_assert(TABLE_KEY_SIZE == crypto_shorthash_KEYBYTES, "SipHash has one key size");

uint64_t table_hash(const uint8_t key[TABLE_KEY_SIZE], struct bytes name)
{
    uint8_t hash[crypto_shorthash_BYTES];

    (void)crypto_shorthash(hash, name.data, name.length, key);
    return load_u64(hash);
}
