/* An event of the log, decided again under both sets from the facts that it commits to. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "policy/decider/place.h"
#include "policy/decider/plan_priv.h"
#include "policy/replay_priv.h"

/* One entry of the facts, on one side. */
struct entry {
    const struct policy_plan *plan;
    const struct plan_event *event;
    enum plan_side side;
    const char *scope, *digest;
    struct uuid project;
    const json_t *json;
    bool compares; /* a new label is compared with the one before */
    struct label label, before;
    bool is_labelled, was_labelled;
    bool is_of_server;      /* nobody has asked for it */
    bool is_without_runner; /* a run is asked for */
};

/* Why an event can't be decided again; NULL: it can. */
struct doubt {
    const char *why;
};

static struct result as_failure(const struct error *why, struct error *err)
{
    return failure(err, why->kind, "%s", why->message);
}

/* ---- labels ---- */

/* What the facts state, and the floors of the side. */
static struct result stated_label(const struct entry *entry, const json_t *json, struct label *label_out, bool *is_labelled_out,
                                  struct error *err)
{
    const struct label_query query = {policy_set_documents(plan_set(entry->plan, entry->side)), entry->scope,
                                      entry->plan->now_ms * 1000};
    struct label own;

    if (json == NULL || json_is_null(json)) return policy_effective_label(&query, NULL, label_out, is_labelled_out, err);
    TRY(label_read(json, &own, err));
    return policy_effective_label(&query, &own, label_out, is_labelled_out, err);
}

/* The name is the same thing as at the event: its label is that of now. */
static bool is_there(const struct entry *entry)
{
    const struct tenant_project *project = tenancy_project(&entry->plan->snapshot->tenancy, entry->scope);

    return project != NULL && uuid_equal(&project->id, &entry->project);
}

static struct result find_label(struct entry *entry, struct error *err)
{
    const json_t *before = json_object_get(entry->json, "before"), *label = json_object_get(entry->json, "label");

    entry->compares = before != NULL;
    if (entry->compares) TRY(stated_label(entry, before, &entry->before, &entry->was_labelled, err));
    if (!entry->compares && is_there(entry))
        return plan_label_of(entry->plan, entry->side, entry->scope, &entry->label, &entry->is_labelled, err);
    return stated_label(entry, label, &entry->label, &entry->is_labelled, err);
}

/* ---- operations ---- */

/* A new label is refused for what it adds. */
static struct result compare(const struct entry *entry, const struct plan_question *question, struct plan_verdict *verdict,
                             struct error *err)
{
    OWNED(policy_decision) *after = NULL;
    OWNED(policy_decision) *before = NULL;
    struct plan_question earlier = *question;

    earlier.label = entry->was_labelled ? &entry->before : NULL;
    TRY(plan_decide(entry->plan, entry->side, question, &after, err));
    TRY(plan_decide(entry->plan, entry->side, &earlier, &before, err));
    for (size_t i = 0; i < policy_decision_denial_count(after); i++) {
        const struct policy_denial *denial = policy_decision_denial(after, i);
        if (policy_denial_is_new(before, denial)) plan_note(verdict, question, denial->rule, denial->policy);
    }
    return SUCCESS;
}

static struct result is_denied(const struct entry *entry, const struct plan_question *asked, bool *is_denied_out,
                               struct error *err)
{
    const struct policy_set *set = plan_set(entry->plan, entry->side);
    struct plan_question question = *asked;
    struct plan_verdict trial = {.is_denied = false};

    question.target = policy_set_region(set, question.target_id, entry->plan->now_ms * 1000);
    if (question.target == NULL) question.target = policy_set_unknown(set);
    TRY(plan_ask(entry->plan, entry->side, &question, &trial, err));
    *is_denied_out = trial.is_denied;
    return SUCCESS;
}

/* As the decision does: an attested runner of the region is hoped for if no other may have the run. */
static struct result find_runner(const struct entry *entry, struct plan_question *question, struct error *err)
{
    static const size_t mark = sizeof POLICY_ATTESTED_MARK - 1;
    const char *named = question->target_id;
    const struct set_region *region = NULL;
    bool is_refused = false;

    if (strncmp(named, POLICY_ATTESTED_MARK, mark) == 0) question->target_id += mark;
    region = set_region(plan_set(entry->plan, entry->side), question->target_id);
    if (region == NULL) return SUCCESS;
    TRY(is_denied(entry, question, &is_refused, err));
    if (!is_refused) return SUCCESS;
    struct plan_question attested = *question;
    attested.target_id = region->attested_id;
    TRY(is_denied(entry, &attested, &is_refused, err));
    if (!is_refused) question->target_id = attested.target_id;
    return SUCCESS;
}

static struct result ask_operation(const struct entry *entry, const json_t *json, struct plan_verdict *verdict,
                                   struct doubt *doubt, struct error *err)
{
    const struct policy_set *set = plan_set(entry->plan, entry->side);
    struct plan_question question = {
        .scope = entry->scope,
        .digest = entry->digest,
        .project = &entry->project,
        .label = entry->is_labelled ? &entry->label : NULL,
        .op = (enum policy_operation)(1U << word_index(operation_names, json_text_of(json, "op"))),
        .target_id = json_text_of(json, "target_id"),
        .is_of_server = entry->is_of_server,
    };

    if ((question.op & OP_OF_CLIENTS) != 0) {
        if (!plan_network(set, question.target_id, entry->event->then, &question))
            doubt->why = "network"; /* the sets have different networks, and the address is sealed */
    } else if (question.op == OP_TRAIN) {
        if (entry->is_without_runner) TRY(find_runner(entry, &question, err));
        question.target = policy_set_runner_named(set, question.target_id, entry->plan->now_ms * 1000);
    } else question.target = policy_set_region(set, question.target_id, entry->plan->now_ms * 1000);
    if (question.target == NULL) question.target = policy_set_unknown(set);
    if (entry->compares) return compare(entry, &question, verdict, err);
    return plan_ask(entry->plan, entry->side, &question, verdict, err);
}

/* Whoever reads is refused, too, if the content may not be where it is. */
static struct result ask_place(const struct entry *entry, const json_t *operations, struct plan_verdict *verdict,
                               struct error *err)
{
    for (size_t i = 0; i < json_array_size(operations); i++) {
        const json_t *operation = json_array_get(operations, i);
        const struct plan_question read = {
            .scope = entry->scope,
            .digest = entry->digest,
            .op = (enum policy_operation)(1U << word_index(operation_names, json_text_of(operation, "op"))),
            .target_id = json_text_of(operation, "target_id")};
        if ((read.op & (OP_READ | OP_TRAIN)) != 0) return plan_read_place(entry->plan, entry->side, &read, verdict, err);
    }
    return SUCCESS;
}

static struct result ask_entry(struct entry *entry, struct plan_verdict *verdict, struct doubt *doubt, struct error *err)
{
    const json_t *operations = json_object_get(entry->json, "operations");

    TRY(find_label(entry, err));
    TRY(ask_place(entry, operations, verdict, err));
    for (size_t i = 0; i < json_array_size(operations); i++)
        TRY(ask_operation(entry, json_array_get(operations, i), verdict, doubt, err));
    return SUCCESS;
}

/* More than the limits allow is denied, as in a request. */
static struct result judge(struct entry *entry, struct plan_verdict *verdict, struct doubt *doubt, struct error *err)
{
    const struct plan_question nothing = {.scope = entry->scope, .op = OP_LOG, .target_id = ""};
    struct error why = {0};

    if (plan_set(entry->plan, entry->side) == NULL) {
        plan_note(verdict, &nothing, "SYS-NO-POLICY", "sys");
        return SUCCESS;
    }
    if (ask_entry(entry, verdict, doubt, &why).ok) return SUCCESS;
    if (!plan_is_denial(&why)) return as_failure(&why, err);
    plan_note(verdict, &nothing, "SYS-LIMIT", "sys");
    return SUCCESS;
}

/* Decided without a request (copy_decision.h, place.h). */
static bool is_of_server(const char *action)
{
    static const enum action own[] = {ACTION_COPY_WRITE, ACTION_MOVE_WRITE, ACTION_PROJECT_MOVED, ACTION_PLACEMENT_CHECK};

    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strcmp(action, action_name(own[i])) == 0) return true;
    return false;
}

static bool is_without_runner(const json_t *facts)
{
    const char *action = json_text_of(facts, "action");

    return strcmp(action, "run.request") == 0 || strcmp(action, "run.order") == 0;
}

static struct result judge_all(const struct policy_plan *plan, const struct plan_event *event, const json_t *facts,
                               struct plan_verdict verdicts[PLAN_SIDES], struct doubt *doubt, struct error *err)
{
    const json_t *judged = json_object_get(facts, "judged");

    for (size_t i = 0; i < json_array_size(judged); i++)
        for (enum plan_side side = PLAN_NOW; side < PLAN_SIDES; side++) {
            const json_t *json = json_array_get(judged, i);
            const char *scope = json_text_of(json, "scope");
            struct entry entry = {.plan = plan,
                                  .event = event,
                                  .side = side,
                                  .scope = scope == NULL ? event->name : scope,
                                  .digest = json_is_true(json_object_get(facts, "digest")) ? event->digest : NULL,
                                  .is_of_server = is_of_server(json_text_of(facts, "action")),
                                  .json = json,
                                  .is_without_runner = is_without_runner(facts)};
            (void)uuid_parse(bytes_of_text(json_text_of(json, "project")), &entry.project); /* the shape has checked it */
            TRY(judge(&entry, &verdicts[side], doubt, err));
        }
    return SUCCESS;
}

/* ---- a whole target ---- */

/* What the system refused. Rights and names don't follow from policies; the other two say that not all was evaluated then. */
static bool take_refused(const json_t *facts, struct doubt *doubt)
{
    const json_t *refused = json_object_get(facts, "refused");
    bool is_by_rights = false;

    for (size_t i = 0; i < json_array_size(refused); i++) {
        const char *rule = json_string_value(json_array_get(refused, i));
        if (strcmp(rule, "SYS-NO-POLICY") == 0) doubt->why = "no set was in force";
        else if (strcmp(rule, "SYS-LIMIT") == 0) doubt->why = "limit";
        else is_by_rights = is_by_rights || strcmp(rule, PLACE_RULE) != 0; /* where it is follows from the set */
    }
    if (json_object_get(facts, "omitted") != NULL) doubt->why = "facts were too large";
    return is_by_rights;
}

static struct result decide(const struct policy_plan *plan, const struct plan_event *event, const json_t *facts,
                            struct plan_answer *answer_out, struct error *err)
{
    struct plan_verdict verdicts[PLAN_SIDES] = {{.is_denied = false}};
    struct doubt doubt = {NULL};
    const bool is_refused = take_refused(facts, &doubt);

    if (is_refused) {
        *answer_out = (struct plan_answer){.change = PLAN_DENIED, .operation = ""};
        return SUCCESS;
    }
    if (strcmp(json_text_of(facts, "action"), "audit.archive") == 0) doubt.why = "all places are asked";
    if (doubt.why == NULL) TRY(judge_all(plan, event, facts, verdicts, &doubt, err));
    plan_conclude(verdicts, answer_out);
    if (doubt.why == NULL) return SUCCESS;
    *answer_out = (struct plan_answer){.change = PLAN_UNDECIDED, .operation = ""};
    (void)snprintf(answer_out->rule, sizeof answer_out->rule, "%s", doubt.why);
    return SUCCESS;
}

struct result policy_plan_event(const struct policy_plan *plan, const struct plan_event *event, struct plan_answer *answer_out,
                                struct error *err)
{
    OWNED_JSON facts = NULL;
    struct error why = {0};

    struct result read = json_read(event->facts, REPLAY_FACTS_MAX, &facts, &why);
    if (read.ok) read = shape_check(&shape_pair_facts, facts, "facts", &why);
    if (read.ok) return decide(plan, event, facts, answer_out, err);
    if (why.kind == ERROR_NO_MEMORY) return as_failure(&why, err);
    *answer_out = (struct plan_answer){.change = PLAN_UNDECIDED, .operation = ""};
    (void)snprintf(answer_out->rule, sizeof answer_out->rule, "facts are missing");
    return SUCCESS;
}
