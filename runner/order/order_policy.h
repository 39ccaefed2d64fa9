/*
 * runner/order/order_policy.h -- decides `train` again for a leased order, from the signed policy set that the order names.
 *
 * policy/train.h describes the decision. It is made twice: before anything is fetched, and again with the labels that the artifacts' manifests
 * state, before the first byte of their content. A runner does not know other labels above the policies' floors: it relies on the registry for
 * them. It does not know a project's exceptions either: it refuses a run that needs one.
 */
#pragma once

#include "policy/set.h"
#include "policy/train.h"
#include "training/format/envelope.h"

struct order_context {
    const char *region; /* from the runner's document */
    int64_t now_ms;
    const struct train_floors *floors; /* what the manifests of the artifacts state; NULL: they were not fetched yet */
};

/**
 * `sets` is the list `policy_sets` of the bundle; `root` has signed them, unless they say that several persons do. ERROR_DENIED with the rule, or with
 * the fault of the order: too few approvals, no demand of a signed request, or a jurisdiction that the set forbids. ERROR_NO_MEMORY.
 */
RESULT order_policy_check(const struct run_envelope *order, const json_t *sets, const struct ecdsa_key *root,
                          const struct order_context *context, struct error *err);
/**
 * Appends the label of all that the run writes, as the annotation of its manifests (policy/label_annotation.h). Errors as above.
 */
RESULT order_policy_label(const struct run_envelope *order, const json_t *sets, const struct ecdsa_key *root,
                          const struct order_context *context, struct buffer *label, struct error *err);
