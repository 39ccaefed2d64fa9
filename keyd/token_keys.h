/*
 * keyd/token_keys.h -- the keys that sign the registry's tokens, one after the other: each for TOKEN_KEY_PERIOD_S.
 *
 * All are derived from one secret of the key ring, so they need no storage, and every copy of the key ring has the same ones:
 * HKDF(token key of the ring, info "sijil token key v1" || u64 number of the period since 1970 || u8 counter), with a growing counter until the result
 * is a scalar of P-256. Rule: a key is published for a whole period before it signs, and for TOKEN_KEY_KEPT_S after; so those who have read the
 * published keys in the meantime refuse no token. The keys never change after they were made, so threads may share them.
 */
#pragma once

#include "crypto/ecdsa.h"
#include "crypto/keyd_client.h"

#define TOKEN_KEY_PERIOD_S INT64_C(2592000) /* 30 days */
#define TOKEN_KEY_KEPT_S   INT64_C(172800)  /* an upload session accepts a token a day after its end (docs/identity.md) */
#define TOKEN_KEYS_MADE    26               /* two years without a start of the process; then the last one stays */

struct token_keys;

/** `secret` has 32 bytes. ERROR_NO_MEMORY. */
RESULT token_keys_new(const uint8_t secret[32], int64_t now_s, struct token_keys **keys_out, struct error *err);
/** The key that signs at this time. */
const struct ecdsa_key *token_keys_at(const struct token_keys *keys, int64_t now_s);
/** The keys whose tokens may be valid at this time, or will soon be: the first signs now. Returns how many, at most KEYD_TOKEN_KEYS_MAX. */
size_t token_keys_published(const struct token_keys *keys, int64_t now_s,
                            const struct ecdsa_key *published_out[KEYD_TOKEN_KEYS_MAX]);
void token_keys_free(struct token_keys *keys);
DEFINE_OWNED(token_keys);
