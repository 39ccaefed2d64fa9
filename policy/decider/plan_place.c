/* Reads of what may not be where it is (place.h), under a set. */
#include <string.h>

#include "policy/decider/place.h"
#include "policy/decider/plan_priv.h"

static struct result breaks(const struct policy_plan *plan, enum plan_side side, const struct plan_question *question,
                            bool *breaks_out, struct error *err)
{
    OWNED(policy_decision) *decision = NULL;

    TRY(plan_decide(plan, side, question, &decision, err));
    *breaks_out = false;
    for (size_t i = 0; i < policy_decision_denial_count(decision) && !*breaks_out; i++)
        *breaks_out = place_is_broken_by(policy_decision_denial(decision, i));
    return SUCCESS;
}

/* One of the operations of a place; `digest` NULL: of no content in particular. */
static struct result ask_place(const struct policy_plan *plan, enum plan_side side, struct plan_question *question,
                               enum policy_operation op, bool *breaks_out, struct error *err)
{
    const struct tenant_project *project = tenancy_project(&plan->snapshot->tenancy, question->scope);
    const struct policy_set *set = plan_set(plan, side);
    struct label label;
    bool is_labelled = false;

    TRY(plan_label_of(plan, side, question->scope, &label, &is_labelled, err));
    question->op = op;
    question->is_of_server = true;
    question->project = &project->id;
    question->label = is_labelled ? &label : NULL;
    question->target_id = op != OP_INGEST && plan->metadata_region[0] != '\0' ? plan->metadata_region : project->home_region;
    question->target = policy_set_region(set, question->target_id, plan->now_ms * 1000);
    if (question->target == NULL) question->target = policy_set_unknown(set);
    return breaks(plan, side, question, breaks_out, err);
}

static struct result ask_places(const struct policy_plan *plan, enum plan_side side, const struct plan_question *read,
                                const char *digest, enum policy_operation *op_out, struct error *err)
{
    bool is_broken = false;

    for (size_t i = 0; i < PLACE_OPERATIONS && !is_broken; i++) {
        struct plan_question question = {.scope = read->scope, .digest = digest};
        TRY(ask_place(plan, side, &question, place_operations[i], &is_broken, err));
        *op_out = place_operations[i];
    }
    if (!is_broken) *op_out = 0;
    return SUCCESS;
}

/* More than the limits allow breaks nothing: the look leaves it as it is, and the read itself is denied. */
static struct result find(const struct policy_plan *plan, enum plan_side side, const struct plan_question *read,
                          enum policy_operation *op_out, struct error *err)
{
    struct error why = {0};

    *op_out = 0;
    struct result asked = ask_places(plan, side, read, NULL, op_out, &why);
    if (asked.ok && *op_out != 0 && read->digest != NULL) asked = ask_places(plan, side, read, read->digest, op_out, &why);
    if (asked.ok) return SUCCESS;
    *op_out = 0;
    return plan_is_denial(&why) ? SUCCESS : failure(err, why.kind, "%s", why.message);
}

/* A project with copies is read in another region then. What does not exist is nowhere. */
struct result plan_read_place(const struct policy_plan *plan, enum plan_side side, const struct plan_question *read,
                              struct plan_verdict *verdict, struct error *err)
{
    const struct tenant_project *project = tenancy_project(&plan->snapshot->tenancy, read->scope);
    enum policy_operation op = 0;
    bool is_there = false;

    if (project == NULL || plan_set(plan, side) == NULL) return SUCCESS;
    TRY(find(plan, side, read, &op, err));
    if (op == 0 || (op == OP_INGEST && project->copy_regions != NULL)) return SUCCESS;
    verdict->is_of_name = true;
    TRY(plan->names->has(plan->names->context, read->scope, &is_there, err));
    if (!is_there) return SUCCESS;
    plan_note(verdict, read, PLACE_RULE, "sys");
    return SUCCESS;
}
