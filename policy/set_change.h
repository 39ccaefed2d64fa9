/*
 * policy/set_change.h -- whether a policy set loosens what the set before it demands, only restricts it, or neither: it says how many persons must
 * sign (docs/decisions/0141). sijil-keyd asks before it pins, a gateway before it takes the last signature, and a client for its approver.
 */
#pragma once

#include "documents/format/set_change.h"
#include "policy/set.h"

#define SET_CHANGE_STEPS_MAX 20000000 /* of the solver: a second. Past it there is doubt, which counts as a loosening */

/** A set_change_check() for a set that was pinned: compares it with the base, by analysis (policy/compare.h), by the rules that each version had. */
RESULT policy_set_change(const struct set_change_query *query, struct set_change_found *found_out, struct error *err);

/**
 * The same for a set that is to be pinned. A record of a region that demands less is a loosening then. ERROR_INVALID: it declassifies something new
 * without evidence. Sets of before these two rules did both.
 */
RESULT policy_set_change_to_pin(const struct set_change_query *query, struct set_change_found *found_out, struct error *err);

/** Two sets that were read already; `unused` as in a query. */
struct policy_succession {
    const struct policy_set *base, *next;
    uint64_t unused;
    int64_t now_ms;
    bool was_pinned;
};
/** A bit for each exception of `next`, in the order of the signed document, that `base` has, too; NULL: there is no set before. */
void policy_set_kept_exceptions(const struct policy_set *base, const struct policy_set *next,
                                uint8_t kept_out[SET_EXCEPTIONS_MAX / 8]);
/** ERROR_NO_MEMORY alone. */
RESULT policy_succession_judge(const struct policy_succession *succession, struct set_change_found *found_out, struct error *err);

/**
 * Whether `next` has all of `base` but some exceptions, and beside it only policies that restrict: rules of `require` and `deny`, no `labels` and no exception
 * types, under ids that are not in `base`. If no set ever had these ids, it restricts and does nothing else.
 */
bool policy_set_only_restricts(const struct policy_set *base, const struct policy_set *next);
