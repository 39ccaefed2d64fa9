/*
 * authz/dpop_nonces.h -- the nonces that proofs must repeat (RFC 9449, 8 and 9).
 *
 * sijil-keyd makes one for each period, so all gateways accept the same ones and ask each other nothing. A nonce is accepted in its period and
 * the next one; so a proof can't be made long before it is used. Thread-safe.
 */
#pragma once

#include "base/owned.h"
#include "crypto/keyd_client.h"

#define DPOP_NONCE_SIZE 23 /* 22 letters of base64url, and NUL */

struct dpop_nonces;

RESULT dpop_nonces_new(struct dpop_nonces **nonces_out, struct error *err);
/** Replaces all of them. */
RESULT dpop_nonces_set(struct dpop_nonces *nonces, const struct keyd_nonces *known, struct error *err);
/** The nonce for the header DPoP-Nonce. False: sijil-keyd has not told it yet. */
bool dpop_nonces_newest(const struct dpop_nonces *nonces, int64_t now_ms, char nonce_out[DPOP_NONCE_SIZE]);
/** Whether proofs with it are accepted now. NULL: none is. */
bool dpop_nonces_accept(const struct dpop_nonces *nonces, int64_t now_ms, const char *nonce);
void dpop_nonces_free(struct dpop_nonces *nonces);
DEFINE_OWNED(dpop_nonces);
