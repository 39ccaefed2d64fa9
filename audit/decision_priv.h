/*
 * audit/decision_priv.h -- the struct behind a decision; shared with the permits that refer to it.
 */
#pragma once

#include <stdatomic.h>

#include "audit/decision_make.h"
#include "crypto/digest.h"

/** Immutable. Reference-counted: the last holder frees it. */
struct decision {
    atomic_uint holders;
    struct decision_parts parts;
    uint8_t facts_digests[ACTION_PAIRS_MAX][SHA256_SIZE]; /* of parts.facts */
    uint8_t facts_text[];                                 /* parts.facts point into this */
};

/** The number of pairs with facts: all, or none. */
size_t decision_facts_count(const struct decision *decision);

/** Made for the server's own work. Nothing is sealed for its event. */
bool decision_is_of_server(const struct decision *decision);

/** Adds a holder. */
struct decision *decision_hold(struct decision *decision);

/** The server's own decisions have no epoch: they depend on nobody's rights. */
#define EPOCH_OF_JOBS UINT64_MAX
