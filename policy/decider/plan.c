/* A proposed set beside the set in force: names, labels, places and runs. Events are in plan_event.c. */
#include "policy/decider/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "policy/decider/plan_priv.h"
#include "policy/decider/stored_label_priv.h"

static struct result no_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory for a plan");
}

static struct result as_failure(const struct error *why, struct error *err)
{
    return failure(err, why->kind, "%s", why->message);
}

/* ---- open and close ---- */

static size_t count_patterns(const struct policy_documents *documents)
{
    size_t count = 0;

    for (size_t i = 0; i < documents->count; i++) count += documents->documents[i]->scopes.count;
    return count;
}

static void find_lost(struct policy_plan *plan, const struct policy_document *old)
{
    const struct stored_label_moment moment = {policy_set_documents(plan->proposed), plan->now_ms * 1000};

    for (size_t i = 0; i < old->scopes.count; i++) {
        if (!stored_label_is_lost(&moment, old, &old->scopes.patterns[i])) continue;
        plan->lost[plan->lost_count++] = (struct plan_lost){old, {1, &old->scopes.patterns[i]}};
    }
}

/* What stored_labels_keep() will write when the set is loaded. */
static struct result find_all_lost(struct policy_plan *plan, struct error *err)
{
    const struct policy_set *base = plan->snapshot->set;
    const struct policy_documents *documents = base == NULL ? NULL : policy_set_documents(base);
    const size_t count = documents == NULL ? 0 : documents->count;

    plan->lost = memory_zeroed(count == 0 ? 1 : count_patterns(documents) + 1, sizeof *plan->lost);
    if (plan->lost == NULL) return no_memory(err);
    for (size_t i = 0; i < count; i++) find_lost(plan, documents->documents[i]);
    return SUCCESS;
}

struct result policy_plan_open(struct decider *decider, const struct policy_set *proposed, int64_t now_ms,
                               const struct plan_names *names, struct policy_plan **plan_out, struct error *err)
{
    OWNED(policy_plan) *plan = memory_zeroed(1, sizeof *plan);

    if (plan == NULL) return no_memory(err);
    plan->snapshot = decider_take(decider);
    if (decider_is_stale(decider, plan->snapshot))
        return failure(err, ERROR_UNAVAILABLE, "this gateway can't tell which policies are in force");
    plan->proposed = policy_set_keep((struct policy_set *)(uintptr_t)proposed);
    plan->now_ms = now_ms;
    plan->names = names;
    (void)text_copy(plan->metadata_region, sizeof plan->metadata_region, decider->metadata_region);
    TRY(find_all_lost(plan, err));
    TRY(restricted_new(plan->proposed, authz_snapshot_rules(plan->snapshot->authz), NULL, &plan->restricted, err));
    *plan_out = GIVE(plan);
    return SUCCESS;
}

void policy_plan_free(struct policy_plan *plan)
{
    if (plan == NULL) return;
    snapshot_free(plan->snapshot);
    restricted_free(plan->restricted);
    policy_set_free(plan->proposed);
    free(plan->lost);
    free(plan);
}

const struct policy_set *policy_plan_base(const struct policy_plan *plan)
{
    return plan->snapshot->set;
}

const struct policy_set *plan_set(const struct policy_plan *plan, enum plan_side side)
{
    return side == PLAN_NOW ? plan->snapshot->set : plan->proposed;
}

const struct restricted *plan_restricted(const struct policy_plan *plan, enum plan_side side)
{
    return side == PLAN_NOW ? plan->snapshot->restricted : plan->restricted;
}

/* ---- labels ---- */

static bool is_lost_here(const struct policy_plan *plan, const struct plan_lost *lost, const char *name)
{
    struct bytes segments[SCOPE_SEGMENTS_MAX];
    size_t count = 0;

    return scope_cut(name, segments, &count) && scope_matches(&lost->scopes, segments, count) &&
           !policy_set_declassifies(plan->proposed, lost->document->id, name);
}

/* Only a repository that exists keeps a floor; this is asked only where one would be kept. */
static struct result join_lost(const struct policy_plan *plan, const char *name, struct label *label, bool *is_stored,
                               struct error *err)
{
    bool is_known = false, is_there = false;

    for (size_t i = 0; i < plan->lost_count; i++) {
        if (!is_lost_here(plan, &plan->lost[i], name)) continue;
        if (!is_known) TRY(plan->names->has(plan->names->context, name, &is_there, err));
        is_known = true;
        if (!is_there) return SUCCESS;
        TRY(label_join(label, &plan->lost[i].document->floor, err));
        *is_stored = true;
    }
    return SUCCESS;
}

struct result plan_label_of(const struct policy_plan *plan, enum plan_side side, const char *name, struct label *label_out,
                            bool *is_labelled_out, struct error *err)
{
    const struct tenancy *tenancy = &plan->snapshot->tenancy;
    const struct policy_set *set = plan_set(plan, side);
    const struct label_query query = {policy_set_documents(set), name, plan->now_ms * 1000};
    struct label own, stored;
    bool is_stated = false, is_stored = false;

    TRY(tenancy_label(tenancy, name, NULL, &own, &is_stated, err));
    TRY(tenancy_stored_label(tenancy, set, name, &stored, &is_stored, err));
    if (side == PLAN_THEN) TRY(join_lost(plan, name, &stored, &is_stored, err));
    return policy_stored_label(&query, is_stored ? &stored : NULL, is_stated ? &own : NULL, label_out, is_labelled_out, err);
}

struct result policy_plan_label(const struct policy_plan *plan, const char *name, struct buffer *text, struct error *err)
{
    struct label label;
    struct error why = {0};
    bool is_labelled = false;

    if (plan->snapshot->set == NULL || !plan_label_of(plan, PLAN_NOW, name, &label, &is_labelled, &why).ok || !is_labelled)
        return buffer_add_text(text, "null", err);
    return label_write(text, &label, err);
}

static bool is_in_force(const struct policy_plan *plan, const struct policy_set *set, const char *policy)
{
    const struct policy_documents *documents = policy_set_documents(set);

    for (size_t i = 0; i < documents->count; i++)
        if (strcmp(documents->documents[i]->id, policy) == 0 && documents->documents[i]->effective_from_us <= plan->now_ms * 1000)
            return true;
    return false;
}

/* The pins of a side whose policy it does not have in force. A label beyond the limits has none. */
static struct result find_missing(const struct policy_plan *plan, enum plan_side side, const char *name,
                                  struct plan_pins *pins_out, struct error *err)
{
    struct label label;
    struct error why = {0};
    bool is_labelled = false;

    pins_out->count = 0;
    const struct result labelled = plan_label_of(plan, side, name, &label, &is_labelled, &why);
    if (!labelled.ok && !plan_is_denial(&why)) return as_failure(&why, err);
    for (size_t i = 0; labelled.ok && is_labelled && i < label.pin_count; i++)
        if (!is_in_force(plan, plan_set(plan, side), label.pins[i])) pins_out->each[pins_out->count++] = label.pins[i];
    return SUCCESS;
}

static bool has_pin(const struct plan_pins *pins, const char *policy)
{
    for (size_t i = 0; i < pins->count; i++)
        if (strcmp(pins->each[i], policy) == 0) return true;
    return false;
}

struct result policy_plan_pins(const struct policy_plan *plan, const char *name, struct plan_pins *pins_out, struct error *err)
{
    struct plan_pins now = {.count = 0}, then;
    size_t count = 0;

    if (plan->snapshot->set != NULL) TRY(find_missing(plan, PLAN_NOW, name, &now, err));
    TRY(find_missing(plan, PLAN_THEN, name, &then, err));
    for (size_t i = 0; i < then.count; i++)
        if (!has_pin(&now, then.each[i])) pins_out->each[count++] = then.each[i];
    pins_out->count = count;
    return SUCCESS;
}

/* ---- decisions ---- */

/* As decisions do (decide_exceptions.c): what the server decides by itself uses none whose uses are counted. */
static bool plan_may_use(const struct policy_plan *plan, const struct plan_question *question,
                         const struct policy_exception *exception)
{
    if (question->is_of_server && exception->uses < INT64_MAX) return false;
    return !tenancy_is_spent(&plan->snapshot->tenancy, exception);
}

struct result plan_decide(const struct policy_plan *plan, enum plan_side side, const struct plan_question *question,
                          struct policy_decision **decision_out, struct error *err)
{
    const struct policy_set *set = plan_set(plan, side);
    struct policy_facts facts = {.op = question->op,
                                 .scope = question->scope,
                                 .project = *question->project,
                                 .policy_epoch = policy_set_epoch(set),
                                 .label = question->label,
                                 .digest = question->digest,
                                 .target_id = question->target_id,
                                 .target = question->target,
                                 .now_us = plan->now_ms * 1000};

    const struct policy_exception *left[POLICY_LIST_MAX];
    size_t count = 0;
    facts.exceptions = policy_set_exceptions(set, question->project, &facts.exception_count);
    for (size_t i = 0; i < facts.exception_count; i++)
        if (plan_may_use(plan, question, facts.exceptions[i])) left[count++] = facts.exceptions[i];
    facts.exceptions = left;
    facts.exception_count = count;
    const struct policy_documents *documents = NULL;
    TRY(restricted_documents(plan_restricted(plan, side), set, question->scope, &documents, err));
    return policy_judge(documents, &facts, policy_set_groups(set), decision_out, err);
}

void plan_note(struct plan_verdict *verdict, const struct plan_question *question, const char *rule, const char *policy)
{
    if (verdict->is_denied) return;
    verdict->is_denied = true;
    verdict->operation = policy_operation_name(question->op);
    (void)snprintf(verdict->scope, sizeof verdict->scope, "%.255s", question->scope);
    (void)snprintf(verdict->target, sizeof verdict->target, "%.255s", question->target_id);
    (void)snprintf(verdict->rule, sizeof verdict->rule, "%.64s", rule);
    (void)snprintf(verdict->policy, sizeof verdict->policy, "%.79s", policy);
}

struct result plan_ask(const struct policy_plan *plan, enum plan_side side, const struct plan_question *question,
                       struct plan_verdict *verdict, struct error *err)
{
    OWNED(policy_decision) *decision = NULL;
    struct error why = {0};

    if (plan_set(plan, side) == NULL) {
        plan_note(verdict, question, "SYS-NO-POLICY", "sys");
        return SUCCESS;
    }
    if (!plan_decide(plan, side, question, &decision, &why).ok) {
        if (!plan_is_denial(&why)) return as_failure(&why, err);
        plan_note(verdict, question, "SYS-LIMIT", "sys");
        return SUCCESS;
    }
    if (policy_decision_approvals(decision) > verdict->approvals) verdict->approvals = policy_decision_approvals(decision);
    verdict->signed_request = verdict->signed_request || policy_decision_signed_request(decision);
    if (policy_decision_denial_count(decision) == 0) return SUCCESS;
    const struct policy_denial *denial = policy_decision_denial(decision, 0);
    plan_note(verdict, question, denial->rule, denial->policy);
    return SUCCESS;
}

static void take(const struct plan_verdict *verdict, struct plan_answer *answer)
{
    answer->operation = verdict->operation;
    memcpy(answer->scope, verdict->scope, sizeof answer->scope);
    memcpy(answer->target, verdict->target, sizeof answer->target);
    memcpy(answer->rule, verdict->rule, sizeof answer->rule);
    memcpy(answer->policy, verdict->policy, sizeof answer->policy);
}

void plan_conclude(const struct plan_verdict verdicts[PLAN_SIDES], struct plan_answer *answer_out)
{
    const bool was = verdicts[PLAN_NOW].is_denied, will_be = verdicts[PLAN_THEN].is_denied;

    *answer_out = (struct plan_answer){.change = was && will_be ? PLAN_DENIED
                                                 : will_be      ? PLAN_NEWLY_DENIED
                                                 : was          ? PLAN_NEWLY_ALLOWED
                                                                : PLAN_ALLOWED,
                                       .operation = "",
                                       .is_of_name = verdicts[PLAN_NOW].is_of_name || verdicts[PLAN_THEN].is_of_name};
    if (was != will_be) take(&verdicts[will_be ? PLAN_THEN : PLAN_NOW], answer_out);
}

/* ---- places ---- */

/* The question about a repository in a region; the label is that of the side. */
static struct result ask_region(const struct policy_plan *plan, enum plan_side side, struct plan_question *question,
                                struct plan_verdict *verdict, struct error *err)
{
    question->is_of_server = true; /* no request */
    const struct policy_set *set = plan_set(plan, side);
    const struct tenant_project *project = tenancy_project(&plan->snapshot->tenancy, question->scope);
    const struct uuid none = {{0}};
    struct label label;
    bool is_labelled = false;
    struct error why = {0};

    question->project = project == NULL ? &none : &project->id;
    question->label = NULL;
    if (set == NULL) return plan_ask(plan, side, question, verdict, err);
    if (!plan_label_of(plan, side, question->scope, &label, &is_labelled, &why).ok) {
        if (!plan_is_denial(&why)) return as_failure(&why, err);
        plan_note(verdict, question, "SYS-LIMIT", "sys");
        return SUCCESS;
    }
    question->label = is_labelled ? &label : NULL;
    question->target = policy_set_region(set, question->target_id, plan->now_ms * 1000);
    if (question->target == NULL) question->target = policy_set_unknown(set);
    return plan_ask(plan, side, question, verdict, err);
}

struct result policy_plan_place(const struct policy_plan *plan, const char *name, const char *region,
                                struct plan_answer *answer_out, struct error *err)
{
    static const enum policy_operation operations[] = {OP_INGEST, OP_METADATA, OP_LOG};
    struct plan_verdict verdicts[PLAN_SIDES] = {{.is_denied = false}};

    for (enum plan_side side = PLAN_NOW; side < PLAN_SIDES; side++)
        for (size_t i = 0; i < sizeof operations / sizeof operations[0] && !verdicts[side].is_denied; i++) {
            const bool is_elsewhere = operations[i] != OP_INGEST && plan->metadata_region[0] != '\0';
            struct plan_question question = {
                .scope = name, .op = operations[i], .target_id = is_elsewhere ? plan->metadata_region : region};
            TRY(ask_region(plan, side, &question, &verdicts[side], err));
        }
    plan_conclude(verdicts, answer_out);
    return SUCCESS;
}

struct result policy_plan_train(const struct policy_plan *plan, const char *name, const char *region,
                                struct plan_train *train_out, struct error *err)
{
    struct plan_verdict verdicts[PLAN_SIDES] = {{.is_denied = false}};

    for (enum plan_side side = PLAN_NOW; side < PLAN_SIDES; side++) {
        struct plan_question question = {.scope = name, .op = OP_TRAIN, .target_id = region};
        TRY(ask_region(plan, side, &question, &verdicts[side], err));
    }
    plan_conclude(verdicts, &train_out->answer);
    train_out->approvals = verdicts[PLAN_THEN].approvals;
    train_out->signed_request = verdicts[PLAN_THEN].signed_request;
    return SUCCESS;
}

struct result policy_plan_regions(const struct policy_plan *plan, const char *name, json_t *regions, struct error *err)
{
    for (size_t i = 0; i < policy_set_region_count(plan->proposed) && json_array_size(regions) < PLAN_REGIONS_MAX; i++) {
        const char *region = policy_set_region_name(plan->proposed, i);
        struct plan_question question = {.scope = name, .op = OP_INGEST, .target_id = region};
        struct plan_verdict verdict = {.is_denied = false};
        TRY(ask_region(plan, PLAN_THEN, &question, &verdict, err));
        if (!verdict.is_denied && json_array_append_new(regions, json_string(region)) != 0) return no_memory(err);
    }
    return SUCCESS;
}
