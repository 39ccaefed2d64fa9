/*
 * policy/expectation.h -- what somebody expects a policy set to decide, and whether it does (docs/policies.md).
 *
 * Pure, as policy/evaluate.h. Every member of an expectation counts: one that is not known makes the whole document invalid.
 */
#pragma once

#include "policy/evaluate.h"
#include "policy/set.h"

#define POLICY_EXPECTATIONS_MAX       1024 /* in one document */
#define POLICY_EXPECTATIONS_BYTES_MAX ((size_t)1024 * 1024)

/** Checks the form of {"now", "tests": [...]}. ERROR_INVALID names the member; ERROR_LIMIT. */
RESULT policy_expectations_check(const json_t *document, struct error *err);

struct policy_expectation_answer {
    bool allows, holds;
    struct policy_decision *decision; /* owned */
};
/**
 * Decides one operation of a checked expectation at `now_us`, if it has no `now` itself. ERROR_INVALID: it names a region or a network that the
 * set does not have, or more than one target.
 */
RESULT policy_expectation_ask(const struct policy_set *set, const json_t *expectation, enum policy_operation op, int64_t now_us,
                              struct policy_expectation_answer *answer_out, struct error *err);
void policy_expectation_answer_done(struct policy_expectation_answer *answer);
#define OWNED_ANSWER __attribute__((cleanup(policy_expectation_answer_done)))
/** The bits of `ops`. */
uint32_t policy_expectation_operations(const json_t *expectation);
