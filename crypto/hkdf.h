/*
 * crypto/hkdf.h -- derives keys from a key (RFC 5869, HKDF-SHA256, extract and expand).
 */
#pragma once

#include "base/bytes.h"

#define HKDF_LENGTH_MAX ((size_t)255 * 32) /* RFC 5869, 2.3 */

/** Writes `length` bytes; the caller owns and wipes them. `key` may not be empty. ERROR_NO_MEMORY. */
RESULT hkdf_sha256(struct bytes key, struct bytes salt, struct bytes info, uint8_t *out, size_t length, struct error *err);
