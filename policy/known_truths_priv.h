/*
 * policy/known_truths_priv.h -- what was found out about a target: the truth of each condition of a set, once asked.
 *
 * The regions and networks of a set are few, and a set never changes. So a condition of its rules is tested once for each of them, not once for each request.
 * The first set that decides about a target keeps its results there; for any other set each decision makes its tests itself.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/result.h"

struct policy_groups;
struct policy_target;
struct rule_index;
struct known_truths;

/** By the number of the condition: 0 while it is not tested, else 1 + enum truth. By the number of a silence: 1, if no group of the run has anything to say. All threads write the same values. */
typedef atomic_uchar known_truth;
/** *known_out is NULL if the target belongs to another set or other groups. It lives as long as the target. ERROR_NO_MEMORY. */
RESULT known_truths_of(const struct policy_target *target, const struct rule_index *index, const struct policy_groups *groups,
                       known_truth **known_out, struct error *err);
void known_truths_free(struct known_truths *known);
/** A number that no other object of this process has, because the address of a freed one is used again. */
uint64_t known_truths_serial(void);
