/*
 * crypto/hmac.h -- proof that the holder of a key wrote a message (RFC 2104, HMAC-SHA256).
 */
#pragma once

#include "base/bytes.h"

#define HMAC_SIZE 32

/** For places in a hash table whose names strangers choose (SipHash-2-4): no proof of anything. */
#define TABLE_KEY_SIZE 16
uint64_t table_hash(const uint8_t key[TABLE_KEY_SIZE], struct bytes name);

/** Compare results with bytes_equal_secret(). */
void hmac_sha256(struct bytes key, struct bytes message, uint8_t out[HMAC_SIZE]);
