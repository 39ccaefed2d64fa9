/*
 * audit/decision_priv.h -- what a decision is; shared with the permits that it leads to.
 */
#pragma once

#include <stdatomic.h>

#include "audit/decision_make.h"

/** Never changed once it is made; freed with its last holder. */
struct decision {
    atomic_uint holders;
    struct decision_parts parts;
};

/** One more holder. */
struct decision *decision_hold(struct decision *decision);

/** The decisions of the server itself are under no epoch: nobody's rights enter them. */
#define EPOCH_OF_JOBS UINT64_MAX
