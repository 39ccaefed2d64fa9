/*
 * crypto/password.h -- derives a key from a passphrase (argon2id, RFC 9106).
 */
#pragma once

#include "base/bytes.h"
#include "crypto/secret.h"

#define PASSWORD_SALT_SIZE 16
#define PASSWORD_KEY_SIZE  32

/** The cost of one guess. It is stored beside the salt, so that it can grow later. */
struct password_cost {
    uint32_t passes;
    uint32_t memory_kib;
};
#define PASSWORD_COST_DEFAULT ((struct password_cost){.passes = 3, .memory_kib = 64 * 1024}) /* RFC 9106, 4, second choice */

/** ERROR_INVALID for a cost out of bounds (1 to 16 passes, 8 KiB to 1 GiB); ERROR_NO_MEMORY. */
RESULT password_key(struct bytes password, const uint8_t salt[PASSWORD_SALT_SIZE], struct password_cost cost,
                    struct secret **key_out, struct error *err);
