#include "policy/decider/place.h"

#include <stdio.h>
#include <string.h>

#include "policy/decider/copy_decision.h"
#include "policy/decider/decider_priv.h"
#include "policy/evaluate.h"

const enum policy_operation place_operations[PLACE_OPERATIONS] = {OP_INGEST, OP_METADATA, OP_LOG};

/* A rule of a policy. The others are of the system: no permit, a pin that is missing, two ends of retention. */
bool place_is_broken_by(const struct policy_denial *denial)
{
    return strncmp(denial->rule, "SYS-", strlen("SYS-")) != 0 && strcmp(denial->rule, "RETENTION-CONFLICT") != 0;
}

static void take(const struct policy_decision *decision, enum policy_operation op, struct place_answer *answer)
{
    for (size_t i = 0; i < policy_decision_denial_count(decision) && !answer->is_broken; i++) {
        const struct policy_denial *denial = policy_decision_denial(decision, i);
        if (!place_is_broken_by(denial)) continue;
        answer->is_broken = true;
        answer->operation = policy_operation_name(op);
        (void)snprintf(answer->rule, sizeof answer->rule, "%s", denial->rule);
        (void)snprintf(answer->policy, sizeof answer->policy, "%s", denial->policy);
    }
}

struct result evaluate_place(const struct decision_context *context, const char *name, const char *digest,
                             struct place_answer *answer_out, struct error *err)
{
    struct place_answer answer = {.operation = ""};

    TRY(policies_known(context, err));
    for (size_t i = 0; i < PLACE_OPERATIONS && !answer.is_broken; i++) {
        const struct repository_query query = {.name = name, .op = place_operations[i], .digest = digest};
        OWNED(policy_decision) *decision = NULL;
        TRY(evaluate_repository(context, &query, &decision, err));
        take(decision, query.op, &answer);
    }
    *answer_out = answer;
    return SUCCESS;
}

struct result decider_place(struct decider *decider, const char *name, int64_t now_ms, struct place_answer *answer_out,
                            struct error *err)
{
    const struct decision_request request = {.now_ms = now_ms};
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct decision_context context = decider_context(decider, snapshot, &request);

    return evaluate_place(&context, name, NULL, answer_out, err);
}

struct result decider_decide_place(struct decider *decider, const struct resource *where, int64_t now_ms,
                                   struct decision **decision_out, struct error *err)
{
    static const struct principal nobody = {.kind = PRINCIPAL_NONE};
    struct decision_request request = {.principal = &nobody, .pair_count = 1, .now_ms = now_ms};

    request.pairs[0] = (struct action_pair){.action = ACTION_PLACEMENT_CHECK, .resource = *where};
    OWNED(snapshot) *snapshot = decider_take(decider);
    struct decision_context context = decider_context(decider, snapshot, &request);
    context.is_of_server = true;
    return decide_request(&context, decision_out, err);
}

struct place_version decider_place_version(struct decider *decider)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    const uint64_t set = snapshot->set == NULL ? 0 : policy_set_epoch(snapshot->set);

    return (struct place_version){copies_version(snapshot->names->version, set), restricted_mark(snapshot->restricted)};
}

/* ---- Reads ---- */

static bool is_nowhere_else(const struct decision_context *context, const struct tenant_misplaced *misplaced)
{
    const struct tenant_project *project = tenancy_project(&context->snapshot->tenancy, misplaced->name);

    return project != NULL && project->copy_regions == NULL && strcmp(project->home_region, misplaced->region) == 0;
}

/*
 * What lies in the database is out of place there, from wherever its bytes are read. Training is decided for the region of the runner: where its content
 * is read says run.fetch, which stands beside it.
 */
static bool is_read_there(const struct decision_context *context, const struct tenant_misplaced *misplaced,
                          const struct action_pair *pair)
{
    const unsigned operations = action_operations(pair->action);

    if ((operations & (OP_READ | OP_TRAIN)) == 0 && pair->action != ACTION_RUN_FETCH) return false;
    if (misplaced->is_of_database) return true;
    if ((operations & OP_TRAIN) != 0) return is_nowhere_else(context, misplaced);
    return pair->resource.region[0] == '\0' || strcmp(pair->resource.region, misplaced->region) == 0;
}

/* An exception for the digest lets it rest there, and so be read there. A failure lifts nothing. */
static bool is_lifted(const struct decision_context *context, const struct action_pair *pair, const char *digest)
{
    struct place_answer answer;
    struct error ignored;

    if (digest[0] == '\0' || context->snapshot->set == NULL) return false;
    return evaluate_place(context, pair->resource.name, digest, &answer, &ignored).ok && !answer.is_broken;
}

bool place_refuses(const struct decision_context *context, const struct action_pair *pair, const char *digest)
{
    const struct tenant_misplaced *misplaced = tenancy_misplaced(&context->snapshot->tenancy, pair->resource.name);

    return misplaced != NULL && !context->is_of_server && is_read_there(context, misplaced, pair) &&
           !is_lifted(context, pair, digest);
}
