/*
 * keyd/answer.h -- one request in, one reply out: what a gateway may have, and nothing else.
 */
#pragma once

#include "crypto/keyd_protocol.h"
#include "keyd/keyring.h"
#include "keyd/ledger.h"
#include "keyd/mint_limits.h"
#include "keyd/rate.h"

/** What all connections share. Borrowed; thread-safe. */
struct keyd {
    const struct keyring *keyring;
    struct ledger *ledger;
    struct rate *rate;
    struct mint_limits *mints;
};

/**
 * Answers `message` (whole, with its header) into the empty `reply`; a request that fails gets an error reply.
 * ERROR_INVALID when the message itself is malformed: there is no reply, and the connection is of no more use.
 */
RESULT keyd_answer(const struct keyd *keyd, struct bytes message, struct buffer *reply, struct error *err);

/** Uses every algorithm once, so that nothing is loaded from disk later, and a broken library is found at start. */
RESULT keyd_self_test(const struct keyd *keyd, struct error *err);
