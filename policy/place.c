/* What policies say of a repository by its name, apart from any request: may it be listed, must it be kept. */
#include <stdio.h>
#include <string.h>

#include "policy/decider_priv.h"
#include "policy/evaluate.h"

static struct result ask_listing(const struct judge *judge, const char *name, bool *may_out, struct error *err)
{
    OWNED(policy_decision) *decision = NULL;

    TRY(judge_place(judge, name, OP_LIST, &decision, err));
    *may_out = policy_decision_allows(decision);
    return SUCCESS;
}

struct result judge_listing(const struct judge *judge, const char *name, bool *may_out, struct error *err)
{
    struct error problem = {0};

    *may_out = false;
    if (judge->is_stale || judge->snapshot->set == NULL || ask_listing(judge, name, may_out, &problem).ok) return SUCCESS;
    return problem.kind == ERROR_NO_MEMORY ? failure(err, ERROR_NO_MEMORY, "%s", problem.message) : SUCCESS;
}

/* A pin says that what is here stands under a policy. Without the policy nobody knows for how long it has to stay. */
static void note_pin(const struct policy_decision *decision, struct policy_keeping *keeping)
{
    for (size_t i = 0; i < policy_decision_denial_count(decision); i++) {
        const struct policy_denial *denial = policy_decision_denial(decision, i);
        if (strcmp(denial->rule, "SYS-PIN-MISSING") != 0) continue;
        keeping->for_ever = true;
        (void)snprintf(keeping->rule, sizeof keeping->rule, "%s", denial->rule);
        (void)snprintf(keeping->policy, sizeof keeping->policy, "%s", denial->policy);
    }
}

static void note_retention(const struct policy_decision *decision, struct policy_keeping *keeping)
{
    const char *rule = NULL, *policy = NULL;
    const int64_t days = policy_decision_retains(decision, &rule, &policy);

    if (keeping->for_ever || days <= keeping->days) return;
    keeping->days = days;
    (void)snprintf(keeping->rule, sizeof keeping->rule, "%s", rule);
    (void)snprintf(keeping->policy, sizeof keeping->policy, "%s", policy);
}

struct result judge_keeping(const struct judge *judge, const char *name, struct policy_keeping *keeping_out, struct error *err)
{
    static const enum policy_operation operations[] = {OP_INGEST, OP_METADATA, OP_LOG}; /* what a push asks */
    struct policy_keeping keeping = {.days = 0};

    if (judge->is_stale) return failure(err, ERROR_UNAVAILABLE, "this gateway can't tell which policies are in force");
    for (size_t i = 0; judge->snapshot->set != NULL && i < sizeof operations / sizeof operations[0]; i++) {
        OWNED(policy_decision) *decision = NULL;
        TRY(judge_place(judge, name, operations[i], &decision, err));
        note_pin(decision, &keeping);
        note_retention(decision, &keeping);
    }
    *keeping_out = keeping;
    return SUCCESS;
}
