/*
 * gateway/background/token_keys.h -- a thread that asks sijil-keyd which keys sign tokens, now and next (docs/keys.md), and for the nonces of proofs.
 *
 * A key is published a month before it signs, so a gateway knows it in time even if sijil-keyd is away for days.
 */
#pragma once

#include "base/owned.h"
#include "base/result.h"

struct gateway;
struct token_keys_watch;

/** Asks once, and goes on in a thread. */
RESULT token_keys_start(struct gateway *gateway, struct token_keys_watch **watch_out, struct error *err);
void token_keys_watch_free(struct token_keys_watch *watch);
DEFINE_OWNED(token_keys_watch);
