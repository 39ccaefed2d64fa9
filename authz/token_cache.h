/*
 * authz/token_cache.h -- remembers tokens whose signature was right, so that a push of many blobs reads and checks one once.
 *
 * Keeps the SHA-256 of the whole token, the serial of the key that signed it, and what gate_open() made of it: header and
 * payload, never the signature, so nothing in here can be presented to anybody. Only the text and its signature are settled by that:
 * claims and rights are judged each time. A key that is gone takes its results along, because they name its serial.
 * Bounded: a new token replaces the one of its place that ends first; of a large one only the signature is remembered. Thread-safe.
 */
#pragma once

#include "authz/gate.h"
#include "base/owned.h"

struct token_cache;

RESULT token_cache_new(struct token_cache **cache_out, struct error *err);
/**
 * The serial of the key under which the token with this SHA-256 was found right, if `now_s` is before its end; else 0. Then
 * *token_out is what gate_open() would make of `text` (gate_token_done() releases it), or untouched if that was not kept.
 */
uint64_t token_cache_find(struct token_cache *cache, const uint8_t token_sha256[32], struct bytes text, int64_t now_s,
                          struct gate_token *token_out);
/** Its signature was right under the key with this serial, which is not 0. */
void token_cache_add(struct token_cache *cache, const uint8_t token_sha256[32], const struct gate_token *token,
                     uint64_t key_serial, int64_t expires_s);
void token_cache_free(struct token_cache *cache);
DEFINE_OWNED(token_cache);
