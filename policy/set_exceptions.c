#include "policy/set_exceptions.h"

#include <string.h>

#include "policy/set_priv.h"

const struct policy_document *exception_policy(const struct policy_set *set, const struct policy_exception *exception)
{
    for (size_t i = 0; i < set->documents->count; i++) {
        const struct policy_document *policy = set->documents->documents[i];
        if (strcmp(policy->id, exception->policy_id) == 0 && policy->version == exception->policy_version &&
            strcmp(policy->digest, exception->policy_digest) == 0)
            return policy;
    }
    return NULL;
}

bool exception_lifts_something(const struct policy_exception *exception, const struct policy_document *policy)
{
    for (size_t i = 0; i < policy->rule_count; i++)
        for (unsigned op = 0; op < OP_COUNT; op++) {
            const enum policy_operation one = (enum policy_operation)(policy->rules[i].operations & 1U << op);
            if (one != 0 && exception_covers(exception, policy, &policy->rules[i], one, exception->not_before_us) != NULL)
                return true;
        }
    return false;
}

static const char *state_of(const struct policy_set *set, const struct policy_exception *exception, int64_t now_us)
{
    const struct policy_document *policy = exception_policy(set, exception);

    if (exception->is_revoked || exception->uses_left <= 0) return "revoked";
    if (now_us >= exception->not_after_us) return "ended";
    if (policy == NULL || !exception_lifts_something(exception, policy)) return "lifts-nothing";
    return now_us < exception->not_before_us ? "not-begun" : "in-force";
}

size_t policy_set_exception_count(const struct policy_set *set)
{
    return set->exception_count;
}

void policy_set_exception(const struct policy_set *set, size_t index, int64_t now_us, struct policy_exception_view *view_out)
{
    const struct policy_exception *exception = set->exceptions[index];

    *view_out = (struct policy_exception_view){.json = exception->json,
                                               .key = exception->key,
                                               .id = exception->id,
                                               .uses = exception->uses,
                                               .not_before_us = exception->not_before_us,
                                               .not_after_us = exception->not_after_us,
                                               .state = state_of(set, exception, now_us)};
}

int64_t policy_set_exceptions_until(const struct policy_set *set, int64_t now_us, size_t *in_force_out)
{
    int64_t first_us = INT64_MAX;
    size_t in_force = 0;

    for (size_t i = 0; i < set->exception_count; i++) {
        struct policy_exception_view view;
        policy_set_exception(set, i, now_us, &view);
        if (strcmp(view.state, "in-force") != 0) continue;
        if (view.not_after_us < first_us) first_us = view.not_after_us;
        in_force++;
    }
    *in_force_out = in_force;
    return in_force == 0 ? 0 : first_us;
}
