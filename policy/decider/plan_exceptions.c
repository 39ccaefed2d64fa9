/* Exceptions that no longer fit the proposed set. */
#include <string.h>

#include "base/json.h"
#include "policy/decider/plan_priv.h"

bool policy_plan_asks_digests(const struct policy_plan *plan)
{
    const struct policy_set *base = plan->snapshot->set;

    return plan->proposed->exception_count > 0 || (base != NULL && base->exception_count > 0);
}

static const struct policy_document *find_document(const struct policy_set *set, const struct policy_exception *exception)
{
    const struct policy_documents *documents = policy_set_documents(set);

    for (size_t i = 0; i < documents->count; i++) {
        const struct policy_document *each = documents->documents[i];
        if (strcmp(each->id, exception->policy_id) == 0 && each->version == exception->policy_version) return each;
    }
    return NULL;
}

static bool has_rule(const struct policy_document *document, const char *id)
{
    for (size_t i = 0; i < document->rule_count; i++)
        if (strcmp(document->rules[i].id, id) == 0) return true;
    return false;
}

static bool is_in(const struct policy_set *set, const struct policy_exception *exception)
{
    for (size_t i = 0; i < set->exception_count; i++)
        if (strcmp(set->exceptions[i]->canonical, exception->canonical) == 0) return true;
    return false;
}

/* NULL: it fits. */
static const char *why_not(const struct policy_plan *plan, const struct policy_exception *exception)
{
    if (exception->problem[0] != '\0') return exception->problem;
    const struct policy_document *document = find_document(plan->proposed, exception);

    if (!is_in(plan->proposed, exception)) return "the proposed set does not have it";
    if (exception->is_revoked) return "it is revoked";
    if (exception->not_after_us <= plan->now_ms * 1000) return "it has ended";
    if (tenancy_is_spent(&plan->snapshot->tenancy, exception)) return "all its uses are used up";
    if (document == NULL) return "the proposed set does not have this version of its policy";
    if (exception->policy_digest != NULL && strcmp(exception->policy_digest, document->digest) != 0)
        return "the policy of this version has another content";
    for (size_t i = 0; i < exception->lifts.count; i++)
        if (!has_rule(document, exception->lifts.texts[i])) return "its policy has no such rule any more";
    return NULL;
}

static struct result add(const struct policy_exception *exception, const char *why, json_t *list, struct error *err)
{
    char project[UUID_TEXT_SIZE];

    if (json_array_size(list) == PLAN_EXCEPTIONS_MAX) return SUCCESS;
    uuid_format(&exception->project, project);
    json_t *row = json_pack("{s:s, s:s, s:s, s:s}", "exception", exception->id == NULL ? "" : exception->id, "policy",
                            exception->policy_id == NULL ? "" : exception->policy_id, "project", project, "why", why);
    if (row != NULL && json_array_append_new(list, row) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a plan");
}

struct result policy_plan_exceptions(const struct policy_plan *plan, json_t *list, struct error *err)
{
    const struct policy_set *sets[PLAN_SIDES] = {plan->snapshot->set, plan->proposed};

    for (enum plan_side side = PLAN_NOW; side < PLAN_SIDES; side++) {
        for (size_t i = 0; sets[side] != NULL && i < sets[side]->exception_count; i++) {
            const struct policy_exception *exception = sets[side]->exceptions[i];
            const char *why = side == PLAN_NOW && is_in(plan->proposed, exception) ? NULL : why_not(plan, exception);
            if (why != NULL) TRY(add(exception, why, list, err));
        }
    }
    return SUCCESS;
}
