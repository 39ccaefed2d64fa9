/*
 * keyd/mint_limits.h -- how many tokens keyd signs: by credential and scope, by organisation, and in all.
 *
 * A gateway that was taken over may ask for any token. It gets no more than these, and the ledger counts each before it
 * is signed (docs/keys.md, "Tokens").
 */
#pragma once

#include "crypto/keyd_protocol.h"
#include "keyd/ledger.h"

struct mint_limits;

RESULT mint_limits_new(struct mint_limits **limits_out, struct error *err);
/** Takes one token out of the limits at `now_ms` (monotonic) and counts it. ERROR_LIMIT; ERROR_UNAVAILABLE from the ledger. */
RESULT mint_take(struct mint_limits *limits, struct ledger *ledger, const struct keyd_token *token, int64_t now_ms,
                 struct error *err);
/** The widest of what the token is for. */
enum mint_scope mint_scope_of(const struct keyd_token *token);
void mint_limits_free(struct mint_limits *limits);
DEFINE_OWNED(mint_limits);
