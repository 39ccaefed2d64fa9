/*
 * authz/signature_cache.h -- remembers which signatures were right, so that a push of many blobs checks one once.
 *
 * Holds results for the SHA-256 of whole tokens, never tokens, and only that the signature was right: claims and
 * rights are judged each time. A key that is gone takes its results along (they name its serial). Bounded: a new
 * result replaces the one of its place that ends first. Thread-safe.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"

struct signature_cache;

RESULT signature_cache_new(struct signature_cache **cache_out, struct error *err);
/** Was this token's signature found right under this key, and is `now_s` before its end? */
bool signature_cache_has(struct signature_cache *cache, const uint8_t token_sha256[32], uint64_t key_serial,
                         int64_t now_s);
void signature_cache_add(struct signature_cache *cache, const uint8_t token_sha256[32], uint64_t key_serial,
                         int64_t expires_s);
void signature_cache_free(struct signature_cache *cache);
DEFINE_OWNED(signature_cache);
