/*
 * policy/evaluation_priv.h -- one evaluation while it goes on, shared by evaluate.c and speaking_rules.c.
 */
#pragma once

#include "policy/decision_priv.h"
#include "policy/rule_index_priv.h"

/* The state of one evaluation. */
struct evaluation {
    const struct policy_documents *documents;
    const struct policy_facts *facts;
    const struct policy_groups *groups;
    struct policy_decision *decision;
    struct bytes segments[SCOPE_SEGMENTS_MAX]; /* of the scope */
    size_t segment_count;
    uint64_t in_scope;           /* a bit for each document */
    uint8_t *whens, *conditions; /* by their numbers in the index of rules: 0 while a test is not made, else 1 + enum truth */
    known_truth *truths;         /* of conditions about the target, from earlier decisions; NULL: there is none of this set */
    bool is_granted; /* a policy in scope permits the operation; a policy that applies only by a pin can only restrict */
};

/**
 * The rules of document `index` that say something about these facts, in its order: all that refuse, and one of each group of others. Returns their
 * number.
 */
size_t speaking_rules(const struct evaluation *evaluation, size_t index, uint16_t rules_out[POLICY_LIST_MAX]);
