/*
 * keyd/mint_limits.h -- limits on the tokens that keyd signs: by credential and scope, by organisation, and in total.
 *
 * A gateway under an attacker's control may ask for any token. It gets no more than these limits allow, and the ledger
 * counts each token before it is signed (docs/keys.md, "Tokens").
 */
#pragma once

#include "crypto/keyd_protocol.h"
#include "keyd/ledger.h"

struct mint_limits;

RESULT mint_limits_new(struct mint_limits **limits_out, struct error *err);
/** Takes one token from the limits at `now_ms` (monotonic) and counts it. ERROR_LIMIT; ERROR_UNAVAILABLE from the ledger. */
RESULT mint_take(struct mint_limits *limits, struct ledger *ledger, const struct keyd_token *token, int64_t now_ms,
                 struct error *err);
/** The widest scope of the token. */
enum mint_scope mint_scope_of(const struct keyd_token *token);
void mint_limits_free(struct mint_limits *limits);
DEFINE_OWNED(mint_limits);
