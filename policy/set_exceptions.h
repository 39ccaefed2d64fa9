/*
 * policy/set_exceptions.h -- the exceptions of a policy set, for those who list them (docs/policies.md, "Exceptions").
 */
#pragma once

#include "policy/set.h"

/** One exception, and what has become of it by its set and its dates; how often it was used, only the database knows. Views into the set. */
struct policy_exception_view {
    const json_t *json;
    const uint8_t *key; /* SHA-256 of its canonical text */
    const char *id;
    int64_t uses;                        /* that it allows; INT64_MAX: any number */
    int64_t not_before_us, not_after_us; /* since 1970 */
    const char *
        state; /* "in-force", "not-begun", "ended", "revoked", or "lifts-nothing": the set lacks its version of the policy, or it does not meet its type */
};
size_t policy_set_exception_count(const struct policy_set *set);
void policy_set_exception(const struct policy_set *set, size_t index, int64_t now_us, struct policy_exception_view *view_out);
/** The end of the exception in force that ends first, in microseconds since 1970; 0: none is in force. */
int64_t policy_set_exceptions_until(const struct policy_set *set, int64_t now_us, size_t *in_force_out);
