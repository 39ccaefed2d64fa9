/*
 * gateway/api/policy_priv.h -- what the routes of policy sets and of their drafts share (docs/policies.md).
 */
#pragma once

#include "gateway/api/api_priv.h"
#include "policy/set.h"

/** What comes into force, and how. */
struct policy_loading {
    struct bytes envelope;
    const struct policy_set *set;
    const char *draft;  /* that ends with it; NULL: there was none */
    bool is_other_pair; /* the request's own pair is of another action than policy.load */
};
/** Records the set and has sijil-keyd pin it. *status_out: 201, or 202 if sijil-keyd must answer first. */
RESULT policy_load_set(struct request *request, const struct policy_loading *loading, unsigned *status_out, struct error *err);
