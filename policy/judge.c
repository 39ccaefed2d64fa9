/* Rights and policies joined into one decision; docs/policies.md says what its id is over. */
#include <stdio.h>
#include <string.h>

#include "audit/decision_make.h"
#include "base/clock.h"
#include "base/text.h"
#include "policy/compiled_priv.h"
#include "policy/decider_priv.h"
#include "policy/evaluate.h"

#define INPUTS_MAX (64 * 1024) /* four pairs, fourteen operations each, at 100 bytes; and the names */

/* A decision while it is made. */
struct making {
    const struct judge *judge;
    struct decision_parts parts;
    struct buffer inputs; /* what the id is over */
};

/* One pair of it. */
struct pair {
    const struct action_pair *pair;
    const char *scope;                    /* what is judged: the resource's name, or something below it */
    const struct tenant_project *project; /* NULL: there is none of that name */
    struct label label;
    bool is_labelled;
    char digest[SHA_TEXT_SIZE];           /* "" while the content is not known */
};

static void worsen(struct making *making, enum verdict verdict)
{
    if (verdict > making->parts.verdict) making->parts.verdict = verdict;
}

/* As much as fits, never half a letter of UTF-8. */
static void copy_text(char *place, size_t size, const char *text)
{
    size_t length = strlen(text);

    if (length >= size) {
        length = size - 1;
        while (length > 0 && ((uint8_t)text[length] & 0xc0) == 0x80) length--;
    }
    memcpy(place, text, length);
    place[length] = '\0';
}

static bool is_noted(const struct making *making, const char *rule, const char *policy)
{
    for (size_t i = 0; i < making->parts.denial_count; i++)
        if (strcmp(making->parts.denials[i].rule, rule) == 0 && strcmp(making->parts.denials[i].policy, policy) == 0)
            return true;
    return false;
}

/* The next place for a denial; NULL if it is there already, or if there are enough. */
static struct denial *note(struct making *making, const char *rule, const char *policy, const char *message)
{
    if (making->parts.denial_count == DENIALS_MAX || is_noted(making, rule, policy)) return NULL;
    struct denial *denial = &making->parts.denials[making->parts.denial_count++];
    copy_text(denial->rule, sizeof denial->rule, rule);
    copy_text(denial->policy, sizeof denial->policy, policy);
    copy_text(denial->message, sizeof denial->message, message);
    return denial;
}

static void refuse(struct making *making, enum verdict verdict, const char *rule, const char *message)
{
    worsen(making, verdict);
    (void)note(making, rule, "sys", message);
}

/* Whole names only. */
static void add_names(char *text, size_t size, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const size_t length = strlen(text), wanted = strlen(names[i]) + (length > 0 ? 2 : 0);
        if (length + wanted >= size) return;
        (void)snprintf(text + length, size - length, "%s%s", length > 0 ? ", " : "", names[i]);
    }
}

static const char *message_of(const struct policy_denial *denial)
{
    if (strcmp(denial->rule, "SYS-PIN-MISSING") == 0)
        return "What is here was stored under a policy that is not in force any more; a set that has the policy again,"
               " or that declassifies it here, is the way out.";
    return denial->message[0] != '\0' ? denial->message
                                      : "This policy asks for what is not so, or not proven, here.";
}

static void note_denial(struct making *making, const struct policy_denial *denial)
{
    struct denial *noted = note(making, denial->rule, denial->policy, message_of(denial));

    worsen(making, VERDICT_DENY);
    if (noted == NULL) return;
    add_names(noted->missing, sizeof noted->missing, denial->unknown, denial->unknown_count);
    add_names(noted->failed, sizeof noted->failed, denial->failed, denial->failed_count);
}

/* --- policies --- */

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

static struct result ask(const struct making *making, const struct pair *pair, unsigned op,
                         struct policy_decision **decision_out, struct error *err)
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
    return policy_decide(policy_set_documents(set), &facts, policy_set_groups(set), decision_out, err);
}

static struct result judge_operation(struct making *making, const struct pair *pair, unsigned op, struct error *err)
{
    OWNED(policy_decision) *decision = NULL;

    TRY(ask(making, pair, op, &decision, err));
    return note_operation(making, op, decision, err);
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

/* Does a policy's own rule deny, that did not deny before? That nothing permits what is labelled so is no rule's. */
static bool adds_denial(const struct policy_decision *before, const struct policy_denial *denial)
{
    if (strncmp(denial->rule, "SYS-", 4) == 0 || strcmp(denial->policy, "sys") == 0) return false;
    for (size_t i = 0; i < policy_decision_denial_count(before); i++) {
        const struct policy_denial *known = policy_decision_denial(before, i);
        if (strcmp(known->rule, denial->rule) == 0 && strcmp(known->policy, denial->policy) == 0) return false;
    }
    return true;
}

/* Of one operation: what is noted is only what the label would newly forbid. */
static struct result compare_labels(struct making *making, const struct pair *now, const struct pair *then, unsigned op,
                                    struct error *err)
{
    OWNED(policy_decision) *before = NULL;
    OWNED(policy_decision) *after = NULL;
    const struct policy_denial *denial = NULL;

    TRY(ask(making, now, op, &before, err));
    TRY(ask(making, then, op, &after, err));
    for (size_t i = 0; i < policy_decision_denial_count(after) && denial == NULL; i++)
        if (adds_denial(before, policy_decision_denial(after, i))) denial = policy_decision_denial(after, i);
    if (denial == NULL) return SUCCESS;
    note_denial(making, denial);
    return name_operation(making, op, after, err);
}

static struct result judge_label_of(struct making *making, const struct pair *place, struct error *err)
{
    const unsigned operations = action_operations(place->pair->action);
    struct pair now = *place, then = *place;

    TRY(label_pair(making, &now, NULL, err));
    TRY(label_pair(making, &then, making->judge->request->asked, err));
    for (unsigned i = 0; i < OP_COUNT; i++)
        if ((operations >> i & 1) != 0) TRY(compare_labels(making, &now, &then, 1U << i, err));
    return SUCCESS;
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
    for (unsigned i = 0; i < OP_COUNT; i++)
        if ((operations >> i & 1) != 0) TRY(judge_operation(making, pair, 1U << i, err));
    return SUCCESS;
}

/* What is too large to be judged is denied, like everything that is not understood. */
static struct result judge_policies(struct making *making, struct pair *pair, struct error *err)
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
    return ask(&making, &pair, op, decision_out, err);
}

/* --- rights --- */

static enum verdict verdict_of(enum judgement judgement)
{
    switch (judgement) {
    case JUDGED_ALLOWED: return VERDICT_ALLOW;
    case JUDGED_NOT_ALLOWED: return VERDICT_DENY;
    case JUDGED_INVISIBLE: return VERDICT_HIDE;
    case JUDGED_NOT_LIVE:
    case JUDGED_OUT_OF_SCOPE: break;
    }
    return VERDICT_CHALLENGE;
}

static bool has_moved_organisation(const struct tenancy *tenancy, const struct resource *resource)
{
    const struct tenant_organisation *now = tenancy_organisation(tenancy, resource->name);

    if (uuid_is_nil(&resource->organisation) || resource->name[0] == '\0') return false;
    return now == NULL || !uuid_equal(&resource->organisation, &now->id);
}

/* The name was resolved from an older snapshot, and means something else now: what it meant was deleted. */
static bool has_moved(const struct making *making, const struct pair *pair)
{
    const struct tenancy *tenancy = &making->judge->snapshot->tenancy;
    const struct resource *resource = &pair->pair->resource;

    if (resource->kind == RESOURCE_SYSTEM) return false;
    if (resource->kind == RESOURCE_ORGANISATION || uuid_is_nil(&resource->project)) return has_moved_organisation(tenancy, resource);
    if (tenancy_is_buried(tenancy, &resource->repository)) return true;
    return pair->project == NULL || !uuid_equal(&resource->project, &pair->project->id);
}

static void judge_existence(struct making *making, const struct pair *pair)
{
    if (has_moved(making, pair))
        refuse(making, VERDICT_DENY, "SYS-STALE", "What had this name was deleted meanwhile, or the name is another's now; ask again.");
    else if (pair->pair->resource.kind >= RESOURCE_PROJECT && pair->project == NULL &&
             pair->pair->action != ACTION_PROJECT_CREATE && action_operations(pair->pair->action) != OP_NONE)
        refuse(making, VERDICT_HIDE, "SYS-NOT-FOUND", "There is no project of this name.");
}

static void find_digest(struct pair *pair)
{
    static const char prefix[] = "sha256:";
    const char *detail = pair->pair->resource.detail;

    if (strncmp(detail, prefix, sizeof prefix - 1) != 0 || strlen(detail) != SHA_TEXT_SIZE - 1 ||
        !text_consists_of(bytes_of_text(detail + sizeof prefix - 1), "0123456789abcdef"))
        return;
    memcpy(pair->digest, detail, SHA_TEXT_SIZE);
}

static struct result open_pair(struct making *making, const struct pair *pair, const char *rights, struct error *err)
{
    const struct resource *resource = &pair->pair->resource;
    char organisation[UUID_TEXT_SIZE], project[UUID_TEXT_SIZE], repository[UUID_TEXT_SIZE];
    struct buffer *inputs = &making->inputs;
    const bool is_first = inputs->data[inputs->length - 1] == '[';

    uuid_format(&resource->organisation, organisation);
    uuid_format(&resource->project, project);
    uuid_format(&resource->repository, repository);
    TRY(buffer_format(inputs, err, "%s{\"action\":\"%s\",\"detail\":", is_first ? "" : ",",
                      action_name(pair->pair->action)));
    TRY(json_write_string(inputs, bytes_of_text(resource->detail), err));
    TRY(buffer_add_text(inputs, ",\"name\":", err));
    TRY(json_write_string(inputs, bytes_of_text(resource->name), err));
    TRY(buffer_format(inputs, err, ",\"organisation\":\"%s\",\"project\":\"%s\",\"region\":", organisation, project));
    TRY(json_write_string(inputs, bytes_of_text(resource->region), err));
    return buffer_format(inputs, err, ",\"repository\":\"%s\",\"rights\":\"%s\",\"policies\":[", repository, rights);
}

/* What the caller may not see is judged, and stands in the event, as a name that is nowhere: so the answer takes the same time. */
static void conceal(struct resource *resource)
{
    resource->organisation = resource->project = resource->repository = (struct uuid){{0}};
    resource->region[0] = '\0';
}

/* Policies and what there is are asked only for callers that may know of the thing: asking costs as much as the thing has rules. */
static struct result judge_pair(struct making *making, struct action_pair *asked, struct error *err)
{
    const struct judge *judge = making->judge;
    const struct authz_judgement rights = authz_snapshot_judge(
        judge->snapshot->authz, judge->request->principal, asked->action, &asked->resource, judge->request->now_ms);
    const enum verdict verdict = verdict_of(rights.verdict);
    const bool is_visible = verdict == VERDICT_ALLOW || verdict == VERDICT_DENY;
    struct pair pair = {.pair = asked, .scope = asked->resource.name};

    if (verdict != VERDICT_ALLOW) refuse(making, verdict, rights.rule, rights.message);
    if (is_visible) pair.project = tenancy_project(&judge->snapshot->tenancy, asked->resource.name);
    else conceal(&asked->resource);
    find_digest(&pair);
    if (is_visible) judge_existence(making, &pair);
    TRY(open_pair(making, &pair, verdict == VERDICT_ALLOW ? "allowed" : rights.rule, err));
    if (is_visible) TRY(judge_policies(making, &pair, err));
    return buffer_add_text(&making->inputs, "]}", err);
}

static struct result judge_pairs(struct making *making, struct error *err)
{
    for (size_t i = 0; i < making->parts.pair_count; i++) TRY(judge_pair(making, &making->parts.pairs[i], err));
    return SUCCESS;
}

static struct result judge_all(struct making *making, struct error *err)
{
    if (making->judge->request->principal->kind == PRINCIPAL_NONE)
        refuse(making, VERDICT_CHALLENGE, "SYS-NO-CREDENTIAL", "Log in first: this needs a credential.");
    else if (making->judge->is_stale)
        refuse(making, VERDICT_DENY, "SYS-STALE",
               "This gateway can't tell which rights and policies are in force; try again later.");
    else
        return judge_pairs(making, err);
    return SUCCESS;
}

static struct result write_inputs(struct making *making, struct error *err)
{
    static const char *const verdicts[] = {"allow", "deny", "hide", "challenge"};
    char now[CLOCK_TEXT_SIZE];
    uint8_t *place = NULL;

    clock_format(making->judge->request->now_ms, now);
    TRY(buffer_reserve(&making->inputs, INPUTS_USUAL, &place, err)); /* grown once, not five times */
    TRY(buffer_format(&making->inputs, err, "{\"authorization_epoch\":%llu,\"evaluator\":\"" POLICY_EVALUATOR
                      "\",\"now\":\"%s\",\"pairs\":[", (unsigned long long)making->parts.epoch, now));
    TRY(judge_all(making, err));
    return buffer_format(&making->inputs, err, "],\"policy_set\":\"%s\",\"verdict\":\"%s\"}",
                         making->parts.policy_digest, verdicts[making->parts.verdict]);
}

static void depend_on(struct decision_parts *parts, const struct uuid *organisation)
{
    if (!uuid_is_nil(organisation)) parts->organisations[parts->organisation_count++] = *organisation;
}

/* A role on the whole registry is judged with all roles that its giver gave anywhere. A robot that is not known may be by now. */
static void note_dependencies(const struct judge *judge, struct decision_parts *parts)
{
    const struct principal *principal = judge->request->principal;
    const struct authz_robot *robot =
        principal->kind == PRINCIPAL_ROBOT ? authz_snapshot_robot(judge->snapshot->authz, &principal->id) : NULL;

    parts->is_partial = principal->kind != PRINCIPAL_ROBOT || robot != NULL;
    if (robot != NULL) depend_on(parts, &robot->organisation);
    for (size_t i = 0; i < parts->pair_count; i++) {
        const struct resource *resource = &parts->pairs[i].resource;
        depend_on(parts, &resource->organisation);
        if (resource->kind == RESOURCE_SYSTEM && parts->pairs[i].action == ACTION_BINDING_CREATE) parts->is_partial = false;
        if (parts->pairs[i].action == ACTION_ROBOT_ROTATE) parts->is_partial = false; /* its roles may be anywhere */
    }
}

struct result judge_request(const struct judge *judge, struct decision **decision_out, struct error *err)
{
    struct making making = {.judge = judge, .inputs = BUFFER(INPUTS_MAX)};
    struct decision_parts *parts = &making.parts;

    parts->verdict = VERDICT_ALLOW;
    parts->epoch = judge->snapshot->epoch;
    parts->pair_count = judge->request->pair_count;
    memcpy(parts->pairs, judge->request->pairs, sizeof parts->pairs);
    note_dependencies(judge, parts);
    if (judge->snapshot->set != NULL)
        memcpy(parts->policy_digest, policy_set_digest(judge->snapshot->set), SHA_TEXT_SIZE);
    const struct result written = write_inputs(&making, err);
    if (written.ok) sha_text(buffer_bytes(&making.inputs), parts->id);
    buffer_done(&making.inputs);
    return written.ok ? decision_make(parts, decision_out, err) : written;
}
