/* policy/decider/explain_priv.h -- shared by explain.c and explain_change.c. */
#pragma once

#include "policy/decider/decider_priv.h"
#include "policy/decider/explain.h"

/** What is explained: one decision, with all that it was made from. */
struct explained {
    const struct decision_context *context;
    const struct explain_question *question;
    const struct snapshot *now; /* for what the asker may know; context->snapshot may be one of the past */
    struct principal principal;
    struct action_pair pair; /* as it was asked, with ids */
    const struct decision *decision;
    struct authz_answer rights;
};

/** A policy's evaluation of one operation, for the answer. */
RESULT explain_operation(const struct policy_facts *facts, const struct policy_decision *decision, json_t **value_out,
                         struct error *err);
/** Appends one change for each reason of the denial: all of them together would allow it. */
RESULT explain_changes(const struct explained *explained, json_t *changes, struct error *err);
