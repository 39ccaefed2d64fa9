/*
 * crypto/ecdsa_priv.h -- the struct behind a P-256 key.
 */
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>

#include "crypto/ecdsa.h"

struct ecdsa_key {
    EVP_PKEY *pkey;
    uint8_t point[ECDSA_PUBLIC_SIZE];
    bool is_private;
    struct ecdsa_remote remote; /* sign is NULL if the private half is here */
};

/** Takes `pkey` over in any case. ERROR_INVALID unless it is on P-256, ERROR_NO_MEMORY. */
RESULT ecdsa_key_adopt(EVP_PKEY *pkey, bool is_private, struct ecdsa_key **key_out, struct error *err);
/** Moves the text in `output` to `pem`, and frees `output`. ERROR_NO_MEMORY with `why` if it is NULL or not `is_written`. */
RESULT pem_take(BIO *output, bool is_written, const char *why, struct buffer *pem, struct error *err);
