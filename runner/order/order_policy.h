/*
 * runner/order/order_policy.h -- decides `train` again for a leased order, from the signed policy set that the order names.
 *
 * policy/train.h describes the decision. A runner does not know labels above the policies' floors: it relies on the registry for
 * them. It does not know a project's exceptions either: it refuses a run that needs one.
 */
#pragma once

#include "policy/set.h"
#include "training/format/envelope.h"

struct order_context {
    const char *region; /* from the runner's document */
    int64_t now_ms;
};

/**
 * `sets` is the list `policy_sets` of the bundle; `root` has signed them. ERROR_DENIED with the rule, or with
 * the fault of the order: too few approvals, no demand of a signed request, or a jurisdiction that the set forbids. ERROR_NO_MEMORY.
 */
RESULT order_policy_check(const struct run_envelope *order, const json_t *sets, const struct ecdsa_key *root,
                          const struct order_context *context, struct error *err);
