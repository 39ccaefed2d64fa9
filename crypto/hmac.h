/*
 * crypto/hmac.h -- proof that the holder of a key wrote a message (RFC 2104, HMAC-SHA256).
 */
#pragma once

#include "base/bytes.h"

#define HMAC_SIZE 32

/** Compare results with bytes_equal_secret(). */
void hmac_sha256(struct bytes key, struct bytes message, uint8_t out[HMAC_SIZE]);
