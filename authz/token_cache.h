/*
 * authz/token_cache.h -- caches tokens with a right signature, so that a push of many blobs parses and verifies its
 * token once.
 *
 * An entry holds the SHA-256 of the whole token, the serial of the key that signed it, and the header and payload
 * that jws_parse() returned. It never holds the signature, so its content can't be used as a token. An entry replaces
 * the parsing and the signature check only: claims and rights are checked each time. When a key is removed, its
 * entries are not found any more, because they name its serial. Bounded: a new token replaces the entry of its set
 * that expires first; for a large token header and payload are not kept. Thread-safe.
 */
#pragma once

#include "authz/jws.h"
#include "base/owned.h"

struct token_cache;

RESULT token_cache_new(struct token_cache **cache_out, struct error *err);
/**
 * The serial of the key that signed the token with this SHA-256, if the entry exists and `now_s` is before the
 * token's exp; else 0. If it is found, *token_out is what jws_parse() would return for `text` (jws_done() releases
 * it), or unchanged if header and payload were not kept.
 */
uint64_t token_cache_find(struct token_cache *cache, const uint8_t token_sha256[32], struct bytes text, int64_t now_s,
                          struct jws *token_out);
/** Adds a token whose signature was verified with the key of this serial, which is not 0. */
void token_cache_add(struct token_cache *cache, const uint8_t token_sha256[32], const struct jws *token, uint64_t key_serial,
                     int64_t expires_s);
void token_cache_free(struct token_cache *cache);
DEFINE_OWNED(token_cache);
