/* Evaluates the policies for one pair: each operation of its action, in the order of the list of operations. */
#include <stdio.h>
#include <string.h>

#include "policy/decider/decide_priv.h"

static const char *region_of(const struct decision_draft *draft, const struct pair *pair, unsigned op)
{
    if (pair->pair->action == ACTION_AUDIT_ARCHIVE) return pair->pair->resource.region;
    const char *home = pair->project == NULL ? pair->pair->resource.region : pair->project->home_region;

    if ((op & (OP_METADATA | OP_LOG)) != 0)
        return draft->context->metadata_region[0] != '\0' ? draft->context->metadata_region : home;
    return pair->pair->resource.region[0] != '\0' ? pair->pair->resource.region : home;
}

/*
 * Operations that read or look are evaluated for the client's network, training for where the runner is, all others for the region. A network or
 * region outside the catalogue has unknown facts.
 */
static void choose_target(const struct decision_draft *draft, const struct pair *pair, struct policy_facts *facts)
{
    const struct policy_set *set = draft->context->snapshot->set;

    if ((facts->op & OP_OF_CLIENTS) != 0) {
        facts->target_id = "client";
        facts->target = policy_set_client(set, &draft->context->request->client, &facts->target_id);
    } else if (facts->op == OP_TRAIN) {
        facts->target = policy_set_runner(set, region_of(draft, pair, facts->op), &draft->context->request->client, facts->now_us,
                                          &facts->target_id);
        if (facts->target_id[0] == '\0') facts->target_id = "region";
    } else {
        facts->target_id = region_of(draft, pair, facts->op);
        facts->target = policy_set_region(set, facts->target_id, facts->now_us);
        if (facts->target_id[0] == '\0') facts->target_id = "region";
    }
    if (facts->target == NULL) facts->target = policy_set_unknown(set);
}

static struct result name_operation(struct decision_draft *draft, unsigned op, const struct policy_decision *decision,
                                    struct error *err)
{
    const bool is_first = draft->inputs.data[draft->inputs.length - 1] == '[';

    return buffer_format(&draft->inputs, err, "%s{\"id\":\"%s\",\"op\":\"%s\"}", is_first ? "" : ",",
                         policy_decision_id(decision), policy_operation_name(op));
}

static struct result note_operation(struct decision_draft *draft, unsigned op, const struct policy_decision *decision,
                                    struct error *err)
{
    for (size_t i = 0; i < policy_decision_denial_count(decision); i++) note_denial(draft, policy_decision_denial(decision, i));
    return name_operation(draft, op, decision, err);
}

static struct policy_facts facts_of(const struct decision_draft *draft, const struct pair *pair, unsigned op)
{
    const struct policy_set *set = draft->context->snapshot->set;
    struct policy_facts facts = {
        .op = (enum policy_operation)op,
        .scope = pair->scope,
        .policy_epoch = policy_set_epoch(set),
        .label = pair->is_labelled ? &pair->label : NULL,
        .digest = pair->digest[0] == '\0' ? NULL : pair->digest,
        .now_us = draft->context->request->now_ms * 1000,
    };

    if (pair->project != NULL) facts.project = pair->project->id;
    choose_target(draft, pair, &facts);
    facts.exceptions = policy_set_exceptions(set, &facts.project, &facts.exception_count);
    return facts;
}

static struct result ask(const struct decision_draft *draft, const struct policy_facts *facts,
                         struct policy_decision **decision_out, struct error *err)
{
    const struct snapshot *snapshot = draft->context->snapshot;
    const struct policy_documents *documents = NULL;

    TRY(restricted_documents(snapshot->restricted, snapshot->set, facts->scope, &documents, err));
    return policy_evaluate(documents, facts, policy_set_groups(snapshot->set), decision_out, err);
}

static struct result allows(const struct decision_draft *draft, const struct policy_facts *facts, bool *allows_out,
                            struct error *err)
{
    OWNED(policy_decision) *decision = NULL;

    TRY(ask(draft, facts, &decision, err));
    *allows_out = policy_decision_allows(decision);
    return SUCCESS;
}

/*
 * Nobody has the run yet. An attested runner of the region may be needed, and which runner gets it is decided again with its order, its lease and each
 * of its reads.
 */
static struct result hope_for_attested(const struct decision_draft *draft, struct policy_facts *facts, struct error *err)
{
    static const struct policy_client attested = {.runner = POLICY_RUNNER_ATTESTED};
    struct policy_facts other = *facts;
    bool is_allowed = true;

    if (facts->op != OP_TRAIN || draft->context->request->client.runner != POLICY_RUNNER_NONE) return SUCCESS;
    other.target = policy_set_runner(draft->context->snapshot->set, facts->target_id, &attested, facts->now_us, &other.target_id);
    if (other.target == NULL) return SUCCESS;
    TRY(allows(draft, facts, &is_allowed, err));
    if (is_allowed) return SUCCESS;
    TRY(allows(draft, &other, &is_allowed, err));
    if (is_allowed) *facts = other;
    return SUCCESS;
}

static struct result evaluate_operation(struct decision_draft *draft, const struct pair *pair, unsigned op, struct error *err)
{
    OWNED(policy_decision) *decision = NULL;
    struct policy_facts facts = facts_of(draft, pair, op);
    struct left_exceptions left;

    TRY(hope_for_attested(draft, &facts, err));
    leave_out(draft->context, &facts, &left);
    for (size_t i = 0; i < left.out_count; i++) pair_facts_spent(&draft->stated, left.out[i]);
    TRY(ask(draft, &facts, &decision, err));
    TRY(note_uses(draft, pair, &facts, decision, err));
    TRY(pair_facts_tell(&draft->stated, decision, err));
    TRY(pair_facts_operation(&draft->stated, &facts, err));
    if (draft->context->watch != NULL) TRY(draft->context->watch->operation(draft->context->watch, &facts, decision, err));
    return note_operation(draft, op, decision, err);
}

static struct result evaluate_each(struct decision_draft *draft, const struct pair *pair, unsigned operations, struct error *err)
{
    for (unsigned i = 0; i < OP_COUNT; i++)
        if ((operations >> i & 1) != 0) TRY(evaluate_operation(draft, pair, 1U << i, err));
    return SUCCESS;
}

static struct facts_entry entry_of(const struct decision_draft *draft, const struct pair *pair)
{
    const char *name = pair->pair->resource.name;
    const bool is_said = pair->scope == name && pair_facts_event_says(name);

    return (struct facts_entry){.label = pair->is_labelled ? &pair->label : NULL,
                                .scope = is_said ? NULL : pair->scope,
                                .restrictions = restricted_digests(draft->context->snapshot->restricted, pair->scope),
                                .project = pair->project == NULL ? (struct uuid){{0}} : pair->project->id};
}

/* After a failure the operations that were evaluated before it are still recorded. */
static struct result evaluate_entry(struct decision_draft *draft, const struct pair *pair, unsigned operations, struct error *err)
{
    const struct facts_entry entry = entry_of(draft, pair);
    struct error ignored;

    TRY(pair_facts_open_entry(&draft->stated, &entry, err));
    const struct result evaluated = evaluate_each(draft, pair, operations, err);
    const struct result closed = pair_facts_close_entry(&draft->stated, &entry, evaluated.ok ? err : &ignored);
    return evaluated.ok ? closed : evaluated;
}

static struct result label_pair(const struct decision_draft *draft, struct pair *pair, const struct asked_label *asked,
                                struct error *err)
{
    const struct snapshot *snapshot = draft->context->snapshot;
    const struct label_query query = {
        .documents = policy_set_documents(snapshot->set), .scope = pair->scope, .now_us = draft->context->request->now_ms * 1000};
    struct label own, stored;
    bool is_stated = false, is_stored = false;

    TRY(tenancy_label(&snapshot->tenancy, query.scope, asked, &own, &is_stated, err));
    TRY(tenancy_stored_label(&snapshot->tenancy, snapshot->set, query.scope, &stored, &is_stored, err));
    return policy_stored_label(&query, is_stored ? &stored : NULL, is_stated ? &own : NULL, &pair->label, &pair->is_labelled,
                               err);
}

/* For one operation: notes only denials that the new label would add. */
static struct result compare_labels(struct decision_draft *draft, const struct pair *now, const struct pair *then, unsigned op,
                                    struct error *err)
{
    OWNED(policy_decision) *before = NULL;
    OWNED(policy_decision) *after = NULL;
    const struct policy_denial *denial = NULL;
    const struct policy_facts facts_now = facts_of(draft, now, op), facts_then = facts_of(draft, then, op);

    TRY(ask(draft, &facts_now, &before, err));
    TRY(ask(draft, &facts_then, &after, err));
    TRY(pair_facts_operation(&draft->stated, &facts_then, err));
    for (size_t i = 0; i < policy_decision_denial_count(after) && denial == NULL; i++)
        if (policy_denial_is_new(before, policy_decision_denial(after, i))) denial = policy_decision_denial(after, i);
    if (denial == NULL) return SUCCESS;
    note_denial(draft, denial);
    return name_operation(draft, op, after, err);
}

static struct result compare_each(struct decision_draft *draft, const struct pair *now, const struct pair *then,
                                  struct error *err)
{
    const unsigned operations = action_operations(now->pair->action);

    for (unsigned i = 0; i < OP_COUNT; i++)
        if ((operations >> i & 1) != 0) TRY(compare_labels(draft, now, then, 1U << i, err));
    return SUCCESS;
}

static struct result evaluate_label_of(struct decision_draft *draft, const struct pair *place, struct error *err)
{
    struct pair now = *place, then = *place;
    struct error ignored;

    TRY(label_pair(draft, &now, NULL, err));
    TRY(label_pair(draft, &then, draft->context->request->asked, err));
    struct facts_entry stated = entry_of(draft, &then);
    stated.has_before = true;
    stated.before = now.is_labelled ? &now.label : NULL;
    TRY(pair_facts_open_entry(&draft->stated, &stated, err));
    const struct result compared = compare_each(draft, &now, &then, err);
    const struct result closed = pair_facts_close_entry(&draft->stated, &stated, compared.ok ? err : &ignored);
    return compared.ok ? closed : compared;
}

/*
 * A label is refused if the policies would then deny the present region. A label of an organisation is refused if they
 * would deny the region of any of its projects.
 */
static struct result evaluate_label(struct decision_draft *draft, const struct pair *pair, struct error *err)
{
    const struct tenancy *tenancy = &draft->context->snapshot->tenancy;
    const struct resource *where = &pair->pair->resource;

    if (where->kind != RESOURCE_ORGANISATION) return evaluate_label_of(draft, pair, err);
    for (size_t i = 0; i < tenancy->project_count && draft->parts.verdict == VERDICT_ALLOW; i++) {
        const struct tenant_project *project = &tenancy->projects[i];
        struct pair below = *pair;
        if (!uuid_equal(&project->organisation, &where->organisation)) continue;
        below.project = project;
        below.scope = project->name;
        TRY(evaluate_label_of(draft, &below, err));
    }
    return SUCCESS;
}

static bool is_labelling(enum action action)
{
    return action == ACTION_PROJECT_LABEL || action == ACTION_REPOSITORY_LABEL;
}

static struct result refuses(const struct decision_draft *draft, const struct pair *pair, unsigned operations, bool *refuses_out,
                             struct error *err)
{
    for (unsigned i = 0; i < OP_COUNT; i++) {
        OWNED(policy_decision) *decision = NULL;
        if ((operations >> i & 1) == 0) continue;
        const struct policy_facts facts = facts_of(draft, pair, 1U << i);
        TRY(ask(draft, &facts, &decision, err));
        *refuses_out = !policy_decision_allows(decision);
        if (*refuses_out) return SUCCESS;
    }
    return SUCCESS;
}

/* `scope` is a project, or a repository with a label of its own. */
static struct result find_refusal(struct decision_draft *draft, const struct pair *pair, const char *scope,
                                  struct pair *refused_out, bool *is_refused_out, struct error *err)
{
    struct pair below = *pair;

    below.scope = scope;
    below.project = tenancy_project(&draft->context->snapshot->tenancy, scope);
    TRY(label_pair(draft, &below, NULL, err));
    TRY(refuses(draft, &below, action_operations(pair->pair->action), is_refused_out, err));
    if (*is_refused_out) *refused_out = below;
    return SUCCESS;
}

/*
 * Entries of the log are of all projects, so the region must be allowed for each project, and for each repository with a label of its own. What
 * is stated is the first place that is refused, or else the registry without a label.
 */
static struct result evaluate_everywhere(struct decision_draft *draft, struct pair *pair, struct error *err)
{
    const struct tenancy *tenancy = &draft->context->snapshot->tenancy;
    struct pair stated = *pair;
    bool is_refused = false;

    for (size_t i = 0; i < tenancy->project_count && !is_refused; i++)
        TRY(find_refusal(draft, pair, tenancy->projects[i].name, &stated, &is_refused, err));
    for (size_t i = 0; i < tenancy->repository_count && !is_refused; i++)
        TRY(find_refusal(draft, pair, tenancy->repositories[i].name, &stated, &is_refused, err));
    for (size_t i = 0; i < tenancy->stored_count && !is_refused; i++)
        TRY(find_refusal(draft, pair, tenancy->stored[i].name, &stated, &is_refused, err));
    if (!is_refused) TRY(label_pair(draft, &stated, NULL, err));
    return evaluate_entry(draft, &stated, action_operations(pair->pair->action), err);
}

static struct result evaluate_operations(struct decision_draft *draft, struct pair *pair, struct error *err)
{
    const unsigned operations = action_operations(pair->pair->action);

    if (operations == OP_NONE) return SUCCESS;
    if (is_labelling(pair->pair->action)) {
        const bool is_asked = draft->context->request->asked != NULL && draft->context->snapshot->set != NULL;
        return is_asked && draft->parts.verdict == VERDICT_ALLOW ? evaluate_label(draft, pair, err) : SUCCESS;
    }
    if (draft->context->snapshot->set == NULL) {
        refuse(draft, VERDICT_DENY, "SYS-NO-POLICY",
               "No policy set is loaded yet, so nothing may be stored or read; a security officer loads one.");
        return SUCCESS;
    }
    if (pair->pair->action == ACTION_AUDIT_ARCHIVE) return evaluate_everywhere(draft, pair, err);
    TRY(label_pair(draft, pair, draft->context->request->asked, err));
    return evaluate_entry(draft, pair, operations, err);
}

/* If the evaluation exceeds a limit, the pair is denied. */
struct result evaluate_policies(struct decision_draft *draft, struct pair *pair, struct error *err)
{
    struct error problem = {0};
    const struct result evaluated = evaluate_operations(draft, pair, &problem);

    if (evaluated.ok) return SUCCESS;
    if (problem.kind == ERROR_NO_MEMORY) return failure(err, ERROR_NO_MEMORY, "%s", problem.message);
    refuse(draft, VERDICT_DENY, "SYS-LIMIT", problem.message);
    return SUCCESS;
}

/* A pair for a repository without a caller. `asked` must outlive it. */
static struct result open_pair(const struct decision_draft *draft, const char *name, struct action_pair *asked,
                               struct pair *pair_out, struct error *err)
{
    const struct tenancy *tenancy = &draft->context->snapshot->tenancy;
    struct pair pair = {.pair = asked, .scope = name, .project = tenancy_project(tenancy, name)};

    *asked = (struct action_pair){.resource = {.kind = RESOURCE_REPOSITORY}};
    tenancy_resolve(tenancy, name, &asked->resource);
    TRY(label_pair(draft, &pair, NULL, err));
    *pair_out = pair;
    return SUCCESS;
}

struct result evaluate_label_of_repository(const struct decision_context *context, const char *name, struct label *label_out,
                                           bool *is_labelled_out, struct error *err)
{
    const struct decision_draft draft = {.context = context};
    struct action_pair asked;
    struct pair pair;

    TRY(open_pair(&draft, name, &asked, &pair, err));
    *label_out = pair.label;
    *is_labelled_out = pair.is_labelled;
    return SUCCESS;
}

struct result evaluate_repository(const struct decision_context *context, const struct repository_query *query,
                                  struct policy_decision **decision_out, struct error *err)
{
    struct decision_context of_server = *context;
    const struct decision_draft draft = {.context = &of_server};
    struct left_exceptions left;
    struct action_pair asked;
    struct pair pair;

    of_server.is_of_server = true;
    TRY(open_pair(&draft, query->name, &asked, &pair, err));
    if (query->region != NULL) (void)snprintf(asked.resource.region, sizeof asked.resource.region, "%s", query->region);
    if (query->label != NULL) pair.label = *query->label;
    pair.is_labelled = pair.is_labelled || query->label != NULL;
    struct policy_facts facts = facts_of(&draft, &pair, query->op);
    facts.digest = query->digest;
    if (query->is_there) {
        facts.target_id = query->region;
        facts.target = policy_set_region(context->snapshot->set, query->region, context->request->now_ms * 1000);
        if (facts.target == NULL) facts.target = policy_set_unknown(context->snapshot->set);
    }
    leave_out(&of_server, &facts, &left);
    return ask(&draft, &facts, decision_out, err);
}
