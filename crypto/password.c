#include "crypto/password.h"

#include "base/fault.h"
#include "crypto/sodium_priv.h"

enum { PASSES_MAX = 16, MEMORY_KIB_MIN = 8, MEMORY_KIB_MAX = 1024 * 1024 };

struct result password_key(struct bytes password, const uint8_t salt[PASSWORD_SALT_SIZE], struct password_cost cost,
                           struct secret **key_out, struct error *err)
{
    OWNED(secret) *key = NULL;

    if (cost.passes < 1 || cost.passes > PASSES_MAX || cost.memory_kib < MEMORY_KIB_MIN || cost.memory_kib > MEMORY_KIB_MAX)
        return failure(err, ERROR_INVALID, "a passphrase cost of %u passes over %u KiB is out of bounds", cost.passes,
                       cost.memory_kib);
    TRY(secret_new(PASSWORD_KEY_SIZE, &key, err));
    if (fault_is_due(FAULT_MEMORY) ||
        crypto_pwhash(key->bytes, key->length, (const char *)password.data, password.length, salt, cost.passes,
                      (size_t)cost.memory_kib * 1024, crypto_pwhash_ALG_ARGON2ID13) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory to stretch the passphrase (%u KiB are needed)", cost.memory_kib);
    *key_out = GIVE(key);
    return SUCCESS;
}
