/*
 * crypto/hmac.h -- message authentication codes (RFC 2104, HMAC-SHA256).
 */
#pragma once

#include "base/bytes.h"

#define HMAC_SIZE 32

/** A hash for tables whose keys an attacker may choose (SipHash-2-4). It authenticates nothing. */
#define TABLE_KEY_SIZE 16
uint64_t table_hash(const uint8_t key[TABLE_KEY_SIZE], struct bytes name);

/** Compare results with bytes_equal_secret(). */
void hmac_sha256(struct bytes key, struct bytes message, uint8_t out[HMAC_SIZE]);
