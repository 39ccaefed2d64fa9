/* What policies say of one pair: each operation of its action, in the order of the list of operations. */
#include <string.h>

#include "policy/judge_priv.h"

static const char *region_of(const struct making *making, const struct pair *pair, unsigned op)
{
    const char *home = pair->project == NULL ? pair->pair->resource.region : pair->project->home_region;

    if ((op & (OP_METADATA | OP_LOG)) != 0)
        return making->judge->metadata_region[0] != '\0' ? making->judge->metadata_region : home;
    return pair->pair->resource.region[0] != '\0' ? pair->pair->resource.region : home;
}

/* Reading and looking judge the client, everything else the region. What is in no catalogue is unknown. */
static void choose_target(const struct making *making, const struct pair *pair, struct policy_facts *facts)
{
    const struct policy_set *set = making->judge->snapshot->set;

    if ((facts->op & OP_OF_CLIENTS) != 0) {
        facts->target_id = "client";
        facts->target = policy_set_network(set, making->judge->request->client, &facts->target_id);
    } else {
        facts->target_id = region_of(making, pair, facts->op);
        facts->target = policy_set_region(set, facts->target_id);
        if (facts->target_id[0] == '\0') facts->target_id = "region";
    }
    if (facts->target == NULL) facts->target = policy_set_unknown(set);
}

static struct result name_operation(struct making *making, unsigned op, const struct policy_decision *decision,
                                    struct error *err)
{
    const bool is_first = making->inputs.data[making->inputs.length - 1] == '[';

    return buffer_format(&making->inputs, err, "%s{\"id\":\"%s\",\"op\":\"%s\"}", is_first ? "" : ",",
                         policy_decision_id(decision), policy_operation_name(op));
}

static struct result note_operation(struct making *making, unsigned op, const struct policy_decision *decision,
                                    struct error *err)
{
    for (size_t i = 0; i < policy_decision_denial_count(decision); i++)
        note_denial(making, policy_decision_denial(decision, i));
    return name_operation(making, op, decision, err);
}

static struct policy_facts facts_of(const struct making *making, const struct pair *pair, unsigned op)
{
    const struct policy_set *set = making->judge->snapshot->set;
    struct policy_facts facts = {
        .op = (enum policy_operation)op,
        .scope = pair->scope,
        .policy_epoch = policy_set_epoch(set),
        .label = pair->is_labelled ? &pair->label : NULL,
        .digest = pair->digest[0] == '\0' ? NULL : pair->digest,
        .now_us = making->judge->request->now_ms * 1000,
    };

    if (pair->project != NULL) facts.project = pair->project->id;
    choose_target(making, pair, &facts);
    facts.exceptions = policy_set_exceptions(set, &facts.project, &facts.exception_count);
    return facts;
}

static struct result ask(const struct making *making, const struct policy_facts *facts, struct policy_decision **decision_out,
                         struct error *err)
{
    const struct policy_set *set = making->judge->snapshot->set;

    return policy_decide(policy_set_documents(set), facts, policy_set_groups(set), decision_out, err);
}

static struct result judge_operation(struct making *making, const struct pair *pair, unsigned op, struct error *err)
{
    OWNED(policy_decision) *decision = NULL;
    const struct policy_facts facts = facts_of(making, pair, op);

    TRY(ask(making, &facts, &decision, err));
    TRY(pair_facts_operation(&making->stated, &facts, err));
    return note_operation(making, op, decision, err);
}

static struct result judge_each(struct making *making, const struct pair *pair, unsigned operations, struct error *err)
{
    for (unsigned i = 0; i < OP_COUNT; i++)
        if ((operations >> i & 1) != 0) TRY(judge_operation(making, pair, 1U << i, err));
    return SUCCESS;
}

static struct judged_place place_of(const struct pair *pair)
{
    const char *name = pair->pair->resource.name;
    const bool is_said = pair->scope == name && pair_facts_event_says(name);

    return (struct judged_place){.label = pair->is_labelled ? &pair->label : NULL,
                                 .scope = is_said ? NULL : pair->scope,
                                 .project = pair->project == NULL ? (struct uuid){{0}} : pair->project->id};
}

/* What was judged up to a failure is stated, too. */
static struct result judge_place_of(struct making *making, const struct pair *pair, unsigned operations, struct error *err)
{
    const struct judged_place place = place_of(pair);
    struct error ignored;

    TRY(pair_facts_open_place(&making->stated, &place, err));
    const struct result judged = judge_each(making, pair, operations, err);
    const struct result closed = pair_facts_close_place(&making->stated, &place, judged.ok ? err : &ignored);
    return judged.ok ? closed : judged;
}

static struct result label_pair(const struct making *making, struct pair *pair, const struct asked_label *asked,
                                struct error *err)
{
    const struct snapshot *snapshot = making->judge->snapshot;
    const struct policy_place place = {.documents = policy_set_documents(snapshot->set),
                                       .scope = pair->scope,
                                       .now_us = making->judge->request->now_ms * 1000};
    struct label own, stored;
    bool is_stated = false, is_stored = false;

    TRY(tenancy_label(&snapshot->tenancy, place.scope, asked, &own, &is_stated, err));
    TRY(tenancy_stored_label(&snapshot->tenancy, snapshot->set, place.scope, &stored, &is_stored, err));
    return policy_stored_label(&place, is_stored ? &stored : NULL, is_stated ? &own : NULL, &pair->label,
                               &pair->is_labelled, err);
}

/* Of one operation: what is noted is only what the label would newly forbid. */
static struct result compare_labels(struct making *making, const struct pair *now, const struct pair *then, unsigned op,
                                    struct error *err)
{
    OWNED(policy_decision) *before = NULL;
    OWNED(policy_decision) *after = NULL;
    const struct policy_denial *denial = NULL;
    const struct policy_facts facts_now = facts_of(making, now, op), facts_then = facts_of(making, then, op);

    TRY(ask(making, &facts_now, &before, err));
    TRY(ask(making, &facts_then, &after, err));
    TRY(pair_facts_operation(&making->stated, &facts_then, err));
    for (size_t i = 0; i < policy_decision_denial_count(after) && denial == NULL; i++)
        if (policy_denial_is_new(before, policy_decision_denial(after, i))) denial = policy_decision_denial(after, i);
    if (denial == NULL) return SUCCESS;
    note_denial(making, denial);
    return name_operation(making, op, after, err);
}

static struct result compare_each(struct making *making, const struct pair *now, const struct pair *then, struct error *err)
{
    const unsigned operations = action_operations(now->pair->action);

    for (unsigned i = 0; i < OP_COUNT; i++)
        if ((operations >> i & 1) != 0) TRY(compare_labels(making, now, then, 1U << i, err));
    return SUCCESS;
}

static struct result judge_label_of(struct making *making, const struct pair *place, struct error *err)
{
    struct pair now = *place, then = *place;
    struct error ignored;

    TRY(label_pair(making, &now, NULL, err));
    TRY(label_pair(making, &then, making->judge->request->asked, err));
    struct judged_place stated = place_of(&then);
    stated.has_before = true;
    stated.before = now.is_labelled ? &now.label : NULL;
    TRY(pair_facts_open_place(&making->stated, &stated, err));
    const struct result compared = compare_each(making, &now, &then, err);
    const struct result closed = pair_facts_close_place(&making->stated, &stated, compared.ok ? err : &ignored);
    return compared.ok ? closed : compared;
}

/* A label is refused where it would make the present place forbidden; that of an organisation, for any of its projects. */
static struct result judge_label(struct making *making, const struct pair *pair, struct error *err)
{
    const struct tenancy *tenancy = &making->judge->snapshot->tenancy;
    const struct resource *where = &pair->pair->resource;

    if (where->kind != RESOURCE_ORGANISATION) return judge_label_of(making, pair, err);
    for (size_t i = 0; i < tenancy->project_count && making->parts.verdict == VERDICT_ALLOW; i++) {
        const struct tenant_project *project = &tenancy->projects[i];
        struct pair below = *pair;
        if (!uuid_equal(&project->organisation, &where->organisation)) continue;
        below.project = project;
        below.scope = project->name;
        TRY(judge_label_of(making, &below, err));
    }
    return SUCCESS;
}

static bool is_labelling(enum action action)
{
    return action == ACTION_PROJECT_LABEL || action == ACTION_REPOSITORY_LABEL;
}

static struct result judge_operations(struct making *making, struct pair *pair, struct error *err)
{
    const unsigned operations = action_operations(pair->pair->action);

    if (operations == OP_NONE) return SUCCESS;
    if (is_labelling(pair->pair->action)) {
        const bool is_asked = making->judge->request->asked != NULL && making->judge->snapshot->set != NULL;
        return is_asked && making->parts.verdict == VERDICT_ALLOW ? judge_label(making, pair, err) : SUCCESS;
    }
    if (making->judge->snapshot->set == NULL) {
        refuse(making, VERDICT_DENY, "SYS-NO-POLICY",
               "No policy set is loaded yet, so nothing may be stored or read; a security officer loads one.");
        return SUCCESS;
    }
    TRY(label_pair(making, pair, making->judge->request->asked, err));
    return judge_place_of(making, pair, operations, err);
}

/* What is too large to be judged is denied, like everything that is not understood. */
struct result judge_policies(struct making *making, struct pair *pair, struct error *err)
{
    struct error problem = {0};
    const struct result judged = judge_operations(making, pair, &problem);

    if (judged.ok) return SUCCESS;
    if (problem.kind == ERROR_NO_MEMORY) return failure(err, ERROR_NO_MEMORY, "%s", problem.message);
    refuse(making, VERDICT_DENY, "SYS-LIMIT", problem.message);
    return SUCCESS;
}

struct result judge_place(const struct judge *judge, const char *name, enum policy_operation op,
                          struct policy_decision **decision_out, struct error *err)
{
    const struct making making = {.judge = judge};
    struct action_pair asked = {.resource = {.kind = RESOURCE_REPOSITORY}};

    tenancy_resolve(&judge->snapshot->tenancy, name, &asked.resource);
    struct pair pair = {.pair = &asked, .scope = name, .project = tenancy_project(&judge->snapshot->tenancy, name)};
    TRY(label_pair(&making, &pair, NULL, err));
    const struct policy_facts facts = facts_of(&making, &pair, op);
    return ask(&making, &facts, decision_out, err);
}
