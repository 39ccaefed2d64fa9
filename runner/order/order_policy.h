/*
 * runner/order/order_policy.h -- decides `train` again for a leased order, from the signed policy set that the order names.
 *
 * For each repository of the order the set is asked with the least label that its policies give there, and the region in which the runner
 * was enrolled. The real label is at least as strict, so what is refused here was refused by the set. Labels above the policies' floors,
 * and exceptions of a project, are not known to a runner: the first are the registry's word; the second do not count, so a run that needs
 * one is refused.
 */
#pragma once

#include "policy/set.h"
#include "training/format/envelope.h"

struct order_place {
    const char *region; /* as the runner's document has it */
    int64_t now_ms;
};

/**
 * `sets` is the list `policy_sets` of the bundle; `root` has signed them. ERROR_DENIED with the rule, or with the number of approvals that
 * the order lacks; ERROR_NO_MEMORY.
 */
RESULT order_policy_check(const struct run_envelope *order, const json_t *sets, const struct ecdsa_key *root,
                          const struct order_place *place, struct error *err);
