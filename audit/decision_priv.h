/*
 * audit/decision_priv.h -- what a decision is; shared with the permits that it leads to.
 */
#pragma once

#include <stdatomic.h>

#include "audit/decision_make.h"
#include "crypto/digest.h"

/** Never changed once it is made; freed with its last holder. */
struct decision {
    atomic_uint holders;
    struct decision_parts parts;
    uint8_t facts_digests[ACTION_PAIRS_MAX][SHA256_SIZE]; /* of parts.facts */
    uint8_t facts_text[];                                 /* which they point into */
};

/** Of how many pairs there are facts: of all, or of none. */
size_t decision_facts_count(const struct decision *decision);

/** One more holder. */
struct decision *decision_hold(struct decision *decision);

/** The decisions of the server itself are under no epoch: nobody's rights enter them. */
#define EPOCH_OF_JOBS UINT64_MAX
