/* Evaluates policies for the name of a repository, without a request: whether it may be listed, and how long it must be kept. */
#include <stdio.h>
#include <string.h>

#include "policy/decider/decider_priv.h"
#include "policy/label_annotation.h"
#include "policy/train.h"

struct result policies_known(const struct decision_context *context, struct error *err)
{
    if (!context->is_stale && context->snapshot->set != NULL) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "this gateway can't tell which policies are in force");
}

struct store_answer store_answer_of(const struct decision_context *context, const struct policy_decision *decision)
{
    struct store_answer answer = {.is_allowed = policy_decision_allows(decision)};

    if (!answer.is_allowed) (void)snprintf(answer.rule, sizeof answer.rule, "%s", policy_decision_denial(decision, 0)->rule);
    (void)snprintf(answer.policies, sizeof answer.policies, "%s", policy_set_digest(context->snapshot->set));
    return answer;
}

static struct result ask_listing(const struct decision_context *context, const char *name, bool *may_out, struct error *err)
{
    OWNED(policy_decision) *decision = NULL;

    TRY(evaluate_repository(context, &(struct repository_query){.name = name, .op = OP_LIST}, &decision, err));
    *may_out = policy_decision_allows(decision);
    return SUCCESS;
}

struct result evaluate_listing(const struct decision_context *context, const char *name, bool *may_out, struct error *err)
{
    struct error problem = {0};

    *may_out = false;
    if (context->is_stale || context->snapshot->set == NULL || ask_listing(context, name, may_out, &problem).ok) return SUCCESS;
    return problem.kind == ERROR_NO_MEMORY ? failure(err, ERROR_NO_MEMORY, "%s", problem.message) : SUCCESS;
}

struct result evaluate_run_duties(const struct decision_context *context, const char *name, struct run_duties *duties,
                                  struct error *err)
{
    OWNED(policy_decision) *decision = NULL;

    TRY(policies_known(context, err));
    TRY(evaluate_repository(context, &(struct repository_query){.name = name, .op = OP_TRAIN}, &decision, err));
    const int64_t demanded = policy_decision_approvals(decision);
    if (demanded > duties->approvals) duties->approvals = demanded;
    duties->signed_request = duties->signed_request || policy_decision_signed_request(decision);
    return SUCCESS;
}

static void add_answer(const struct policy_decision *decision, const struct policy_denial *denial, struct train_answer *answer)
{
    const int64_t approvals = policy_decision_approvals(decision);

    if (approvals > answer->approvals) answer->approvals = approvals;
    answer->signed_request = answer->signed_request || policy_decision_signed_request(decision);
    if (denial == NULL) return;
    answer->is_allowed = false;
    if (answer->rule[0] == '\0') (void)snprintf(answer->rule, sizeof answer->rule, "%s", denial->rule);
}

struct result evaluate_train(const struct decision_context *context, const char *name, const char *region,
                             struct train_answer *answer_out, struct error *err)
{
    const struct policy_set *set = context->snapshot->set;
    const struct train_query again = {.repository = name, .region = region, .now_ms = context->request->now_ms};
    struct train_answer answer = {.is_allowed = true};
    OWNED(policy_decision) *full = NULL, *by_runner = NULL;

    TRY(policies_known(context, err));
    const struct repository_query there = {.name = name, .region = region, .is_there = true, .op = OP_TRAIN};
    TRY(evaluate_repository(context, &there, &full, err));
    TRY(policy_train(set, &again, &by_runner, err));
    add_answer(full, policy_decision_allows(full) ? NULL : policy_decision_denial(full, 0), &answer);
    add_answer(by_runner, policy_train_denial(by_runner), &answer);
    (void)snprintf(answer.policies, sizeof answer.policies, "%s", policy_set_digest(set));
    *answer_out = answer;
    return SUCCESS;
}

struct result evaluate_store(const struct decision_context *context, const char *name, struct store_answer *answer_out,
                             struct error *err)
{
    static const enum policy_operation operations[] = {OP_INGEST, OP_METADATA, OP_LOG};
    struct store_answer answer = {.is_allowed = true};

    TRY(policies_known(context, err));
    for (size_t i = 0; i < sizeof operations / sizeof operations[0] && answer.is_allowed; i++) {
        OWNED(policy_decision) *decision = NULL;
        TRY(evaluate_repository(context, &(struct repository_query){.name = name, .op = operations[i]}, &decision, err));
        answer = store_answer_of(context, decision);
    }
    *answer_out = answer;
    return SUCCESS;
}

static bool has_name(const struct buffer *names, const char *name)
{
    for (size_t at = 0; at < names->length; at += strlen((const char *)names->data + at) + 1)
        if (strcmp((const char *)names->data + at, name) == 0) return true;
    return false;
}

/* What the push brings counts already for itself: else the first one of its kind would go around the rules about its label. */
static struct result ask_push(const struct decision_context *context, const struct push_query *push, enum policy_operation op,
                              struct policy_decision **decision_out, struct error *err)
{
    struct repository_query query = {.name = push->name, .region = push->region, .op = op};
    OWNED_STATED_LABEL brought = {.json = NULL};

    if (push->label.length > 0) {
        TRY(json_read(push->label, LABEL_ANNOTATION_MAX, &brought.json, err));
        TRY(label_read(brought.json, &brought.label, err));
        query.label = &brought.label;
    }
    return evaluate_repository(context, &query, decision_out, err);
}

struct result evaluate_evidence(const struct decision_context *context, const struct push_query *push, struct buffer *names,
                                struct error *err)
{
    static const enum policy_operation operations[] = {OP_INGEST, OP_METADATA, OP_LOG, OP_PROMOTE};
    const size_t count = sizeof operations / sizeof operations[0] - (push->promotes ? 0 : 1);

    if (context->is_stale) return failure(err, ERROR_UNAVAILABLE, "this gateway can't tell which policies are in force");
    for (size_t o = 0; context->snapshot->set != NULL && o < count; o++) {
        OWNED(policy_decision) *decision = NULL;
        TRY(ask_push(context, push, operations[o], &decision, err));
        for (size_t i = 0; i < policy_decision_evidence_count(decision); i++) {
            const char *demanded = policy_decision_evidence(decision, i);
            if (!has_name(names, demanded)) TRY(buffer_add(names, demanded, strlen(demanded) + 1, err));
        }
    }
    return SUCCESS;
}

struct result evaluate_promotion(const struct decision_context *context, const struct push_query *push,
                                 struct store_answer *answer_out, struct error *err)
{
    OWNED(policy_decision) *decision = NULL;

    TRY(policies_known(context, err));
    TRY(ask_push(context, push, OP_PROMOTE, &decision, err));
    *answer_out = store_answer_of(context, decision);
    return SUCCESS;
}

struct result evaluate_metadata(const struct decision_context *context, const char *name, const char *region, bool *shows_out,
                                struct error *err)
{
    OWNED(policy_decision) *decision = NULL;

    TRY(policies_known(context, err));
    TRY(evaluate_repository(context, &(struct repository_query){.name = name, .region = region, .op = OP_METADATA}, &decision,
                            err));
    *shows_out = policy_decision_allows(decision);
    return SUCCESS;
}

/* What is known of the registry as a whole has no label, so no policy is about it: it goes to each region that the officers have listed. */
struct result evaluate_delivery(const struct decision_context *context, const char *name, const char *region, bool *delivers_out,
                                struct error *err)
{
    static const enum policy_operation operations[] = {OP_LOG, OP_EXPORT};
    const struct policy_set *set = context->snapshot->set;
    bool delivers = true;

    TRY(policies_known(context, err));
    if (name[0] == '\0') delivers = policy_set_region(set, region, context->request->now_ms * 1000) != NULL;
    for (size_t i = 0; name[0] != '\0' && i < sizeof operations / sizeof operations[0] && delivers; i++) {
        const struct repository_query query = {.name = name, .region = region, .op = operations[i], .is_there = true};
        OWNED(policy_decision) *decision = NULL;
        TRY(evaluate_repository(context, &query, &decision, err));
        delivers = policy_decision_allows(decision);
    }
    *delivers_out = delivers;
    return SUCCESS;
}

/* A pin means that a policy applies to the content. Without that policy nobody knows for how long the content must be kept. */
static void note_pin(const struct policy_decision *decision, struct policy_retention *retention)
{
    for (size_t i = 0; i < policy_decision_denial_count(decision); i++) {
        const struct policy_denial *denial = policy_decision_denial(decision, i);
        if (strcmp(denial->rule, "SYS-PIN-MISSING") != 0) continue;
        retention->for_ever = true;
        (void)snprintf(retention->rule, sizeof retention->rule, "%s", denial->rule);
        (void)snprintf(retention->policy, sizeof retention->policy, "%s", denial->policy);
    }
}

static void note_retention(const struct policy_decision *decision, struct policy_retention *retention)
{
    const char *rule = NULL, *policy = NULL;
    const int64_t days = policy_decision_retains(decision, &rule, &policy);

    if (retention->for_ever || days <= retention->days) return;
    retention->days = days;
    (void)snprintf(retention->rule, sizeof retention->rule, "%s", rule);
    (void)snprintf(retention->policy, sizeof retention->policy, "%s", policy);
}

static void note_end(const struct policy_decision *decision, struct policy_retention *retention)
{
    const char *rule = NULL, *policy = NULL;
    int64_t days = 0;

    if (!policy_decision_ends(decision, &days, &rule, &policy)) return;
    if (retention->has_maximum && days >= retention->maximum_days) return;
    retention->has_maximum = true;
    retention->maximum_days = days;
    (void)snprintf(retention->ending_rule, sizeof retention->ending_rule, "%s", rule);
    (void)snprintf(retention->ending_policy, sizeof retention->ending_policy, "%s", policy);
}

static void note_copies(const struct policy_decision *decision, struct policy_retention *retention)
{
    const int64_t sites = policy_decision_sites(decision);
    const size_t anchors = policy_decision_anchors(decision);

    if (sites > retention->min_sites) retention->min_sites = sites;
    if (anchors > retention->anchors) retention->anchors = anchors;
}

struct result evaluate_retention(const struct decision_context *context, const char *name, struct policy_retention *retention_out,
                                 struct error *err)
{
    static const enum policy_operation operations[] = {OP_INGEST, OP_METADATA, OP_LOG}; /* the operations of a push */
    struct policy_retention retention = {.days = 0};

    if (context->is_stale) return failure(err, ERROR_UNAVAILABLE, "this gateway can't tell which policies are in force");
    for (size_t i = 0; context->snapshot->set != NULL && i < sizeof operations / sizeof operations[0]; i++) {
        OWNED(policy_decision) *decision = NULL;
        TRY(evaluate_repository(context, &(struct repository_query){.name = name, .op = operations[i]}, &decision, err));
        note_pin(decision, &retention);
        note_retention(decision, &retention);
        note_end(decision, &retention);
        note_copies(decision, &retention);
    }
    *retention_out = retention;
    return SUCCESS;
}
