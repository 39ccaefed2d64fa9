/*
 * audit/decision_make.h -- how the decider makes a decision.
 *
 * Only policy/ and tests may include this (tests/lint): whoever can fill this in can grant himself anything.
 */
#pragma once

#include "audit/decision.h"

/** All that a decision consists of. Texts are copied. */
struct decision_parts {
    enum verdict verdict;
    uint64_t epoch;
    char id[72], policy_digest[72];
    size_t pair_count;
    struct action_pair pairs[ACTION_PAIRS_MAX]; /* of one organisation, or of the registry: asserted */
    /**
     * The decision depends on these organisations alone, beside the registry: only a change there, since `epoch`, makes it
     * stale. Not set: any change does, which is always right.
     */
    bool is_partial;
    size_t organisation_count;
    struct uuid organisations[ACTION_PAIRS_MAX + 1]; /* of each resource, and of who asks */
    size_t denial_count;
    struct denial denials[DENIALS_MAX];
    /** What was decided on, of each pair, as it will be stored and read again (docs/formats/audit-log.md section 18), and when by
     *  this gateway's clock. Either all pairs have facts, or none: what nobody decided on has none. They name no person. */
    struct bytes facts[ACTION_PAIRS_MAX];
    int64_t decided_ms;
};

/** Copies `parts`, with the facts. An allowing decision has no denials, another has at least one. ERROR_NO_MEMORY. */
RESULT decision_make(const struct decision_parts *parts, struct decision **decision_out, struct error *err);
