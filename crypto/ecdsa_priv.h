/*
 * crypto/ecdsa_priv.h -- what crypto/ knows of a P-256 key.
 */
#pragma once

#include <openssl/evp.h>

#include "crypto/ecdsa.h"

struct ecdsa_key {
    EVP_PKEY *pkey;
    uint8_t point[ECDSA_PUBLIC_SIZE];
    bool is_private;
};

/** Takes `pkey` in any case; ERROR_INVALID unless it is on P-256, ERROR_NO_MEMORY. */
RESULT ecdsa_key_adopt(EVP_PKEY *pkey, bool is_private, struct ecdsa_key **key_out, struct error *err);
