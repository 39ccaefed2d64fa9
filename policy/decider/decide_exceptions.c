/* Which exceptions a decision may use, and which it uses: the transaction of its event counts them (audit/sequencer_uses.c). */
#include <stdio.h>
#include <string.h>

#include "audit/permit.h"
#include "policy/decider/decide_priv.h"

/* The server's own work uses none whose uses are counted: it would use up what somebody has asked for, and its next decision about the same content has none left. */
static bool may_use(const struct decision_context *context, const struct policy_exception *exception)
{
    if (context->is_of_server && exception->uses < INT64_MAX) return false;
    return permit_has_use(context->request->held, exception->key) || !tenancy_is_spent(&context->snapshot->tenancy, exception);
}

void leave_out(const struct decision_context *context, struct policy_facts *facts, struct left_exceptions *left)
{
    left->count = left->out_count = 0;
    if (context->snapshot->tenancy.spent_count == 0 && !context->is_of_server) return;
    for (size_t i = 0; i < facts->exception_count; i++) {
        const struct policy_exception *exception = facts->exceptions[i];
        if (may_use(context, exception)) left->in[left->count++] = exception;
        else left->out[left->out_count++] = exception;
    }
    facts->exceptions = left->in;
    facts->exception_count = left->count;
}

static bool is_noted(const struct decision_parts *parts, const struct policy_exception *exception)
{
    for (size_t i = 0; i < parts->use_count; i++)
        if (memcmp(parts->uses[i].key, exception->key, sizeof exception->key) == 0) return true;
    return false;
}

static void add_use(struct decision_draft *draft, const struct pair *pair, const struct policy_exception *exception)
{
    struct exception_use *use = &draft->parts.uses[draft->parts.use_count++];

    memcpy(use->key, exception->key, sizeof use->key);
    (void)snprintf(use->id, sizeof use->id, "%s", exception->id);
    use->project = exception->project;
    use->organisation = pair->project->organisation;
    use->uses = exception->uses;
    use->is_held = permit_has_use(draft->context->request->held, exception->key);
}

struct result note_uses(struct decision_draft *draft, const struct pair *pair, const struct policy_facts *facts,
                        const struct policy_decision *decision, struct error *err)
{
    for (size_t i = 0; i < policy_decision_lifted_count(decision); i++) {
        const struct policy_exception *exception = facts->exceptions[policy_decision_lifted(decision, i)];
        TRY(pair_facts_used(&draft->stated, exception, err));
        if (is_noted(&draft->parts, exception)) continue;
        if (draft->parts.use_count == DECISION_USES_MAX)
            return failure(err, ERROR_LIMIT, "a request may use at most %d exceptions", DECISION_USES_MAX);
        add_use(draft, pair, exception);
    }
    return SUCCESS;
}

bool decider_has_exceptions(struct decider *decider, const struct uuid *project)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    size_t count = 0;

    if (snapshot->set != NULL) (void)policy_set_exceptions(snapshot->set, project, &count);
    return count > 0;
}
