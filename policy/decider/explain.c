/* Explains a decision: it is made again by decide_request(), and what that saw is written down. */
#include "policy/decider/explain.h"

#include <string.h>

#include "authz/act.h"
#include "authz/break_glass_entry.h"
#include "authz/group_entry.h"
#include "authz/history.h"
#include "authz/officer_entry.h"
#include "authz/trust_login.h"
#include "base/clock.h"
#include "policy/decider/explain_priv.h"
#include "policy/decider/set_then.h"
#include "policy/evaluate.h"
#include "policy/facts_priv.h"

#define OPERATION_BYTES_MAX ((size_t)256 * 1024) /* the denials of all rules of the largest policies */

/* The operations of the decision, as they are evaluated. */
struct operations {
    struct decision_watch watch; /* its first member */
    json_t *list;
};

static struct result no_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory for an explanation");
}

/* ---- operations ---- */

static struct result label_of(const struct label *label, json_t **value_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(POLICY_FACTS_BYTES_MAX);

    if (label == NULL) {
        *value_out = json_null();
        return SUCCESS;
    }
    TRY(label_write(&text, label, err));
    return json_read(buffer_bytes(&text), POLICY_FACTS_BYTES_MAX, value_out, err);
}

struct result explain_operation(const struct policy_facts *facts, const struct policy_decision *decision, json_t **value_out,
                                struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(OPERATION_BYTES_MAX);
    const char *policy = NULL, *rule = policy_decision_permit(decision, &policy);
    OWNED_JSON label = NULL;
    OWNED_JSON whole = NULL;

    TRY(policy_decision_write(&text, decision, err));
    TRY(json_read(buffer_bytes(&text), OPERATION_BYTES_MAX, &whole, err));
    TRY(label_of(facts->label, &label, err));
    json_t *value =
        json_pack("{s:s, s:s, s:s, s:O, s:b, s:O, s:O, s:O, s:O}", "operation", policy_operation_name(facts->op), "scope",
                  facts->scope, "target", facts->target_id, "label", label, "allowed", policy_decision_allows(decision) ? 1 : 0,
                  "denials", json_object_get(whole, "denies"), "obligations", json_object_get(whole, "obligations"), "exceptions",
                  json_object_get(whole, "lifted"), "warnings", json_object_get(whole, "warnings"));
    if (value == NULL) return no_memory(err);
    *value_out = value;
    if (rule == NULL) return SUCCESS;
    if (json_object_set_new(value, "permitted_by", json_pack("{s:s, s:s}", "policy", policy, "rule", rule)) == 0) return SUCCESS;
    json_decref(value);
    return no_memory(err);
}

static struct result watch_operation(struct decision_watch *watch, const struct policy_facts *facts,
                                     const struct policy_decision *decision, struct error *err)
{
    struct operations *self = (struct operations *)(void *)watch;
    json_t *value = NULL;

    TRY(explain_operation(facts, decision, &value, err));
    return json_array_append_new(self->list, value) == 0 ? SUCCESS : no_memory(err);
}

/* ---- whose rights ---- */

/* Whether the asker may know of the robot: it is of the organisation of the thing, or the asker may explain everything. */
static bool may_know(const struct explained *explained, const struct authz_robot *robot)
{
    const struct resource all = {.kind = RESOURCE_SYSTEM};
    const struct explain_question *question = explained->question;
    const struct uuid *organisation = &explained->pair.resource.organisation;

    if (!uuid_is_nil(&robot->organisation) && uuid_equal(&robot->organisation, organisation)) return true;
    return question->is_own ||
           authz_snapshot_authorize(explained->now->authz, question->asker, ACTION_AUTHZ_EXPLAIN, &all, clock_wall_ms())
                   .verdict == AUTHZ_ALLOWED;
}

static struct result find_robot(struct explained *explained, const char *name, struct error *err)
{
    const struct authz_snapshot *snapshot = explained->context->snapshot->authz;
    const struct authz_robot *robot = authz_snapshot_robot_named(snapshot, bytes_of_text(name));
    const struct principal key = {.kind = PRINCIPAL_ROBOT, .id = robot == NULL ? (struct uuid){{0}} : robot->id};
    char text[PRINCIPAL_KEY_SIZE];

    principal_key(&key, text);
    if (explained->question->is_own && !uuid_equal(&key.id, &explained->question->asker->id))
        robot = NULL; /* its name was another's then */
    if (robot != NULL && may_know(explained, robot) && authz_snapshot_principal(snapshot, text, &key.id, &explained->principal))
        return SUCCESS;
    return failure(err, ERROR_NOT_FOUND, "there is no robot of this name that you may see");
}

static void set_text(char *destination, size_t size, const char *text)
{
    const size_t length = strnlen(text, size - 1);

    memcpy(destination, text, length);
    destination[length] = '\0';
}

/* Whether the asker may know of the rule: it is of the organisation of the thing, or has a role there, or the asker may explain everything. */
static bool may_know_rule(const struct explained *explained, const char *key)
{
    const struct resource all = {.kind = RESOURCE_SYSTEM};
    const struct authz_binding *bindings[BINDINGS_COVERING_MAX];
    const char *name = explained->pair.resource.name;
    const size_t length = strcspn(name, "/");

    if (length > 0 && strncmp(key, name, length) == 0 && (key[length] == '/' || key[length] == ':')) return true;
    if (authz_snapshot_covering(explained->now->authz, &explained->principal, &explained->pair.resource,
                                explained->question->now_ms, bindings) > 0)
        return true;
    return authz_snapshot_authorize(explained->now->authz, explained->question->asker, ACTION_AUTHZ_EXPLAIN, &all,
                                    clock_wall_ms())
               .verdict == AUTHZ_ALLOWED;
}

/* The name of the robot that it is about; NULL: it is about a subject. */
static const char *robot_of(const struct explain_question *question)
{
    if (!question->is_own) return question->robot;
    return question->asker->kind == PRINCIPAL_ROBOT ? question->asker->subject : NULL;
}

static void bound(const struct token_scope *scope, struct principal *principal)
{
    principal->is_limited = scope != NULL;
    if (scope == NULL) return;
    principal->catalog = scope->catalog;
    principal->administration = scope->administration;
    principal->access_count = scope->count;
    memcpy(principal->access, scope->access, sizeof principal->access);
}

static struct result find_principal(struct explained *explained, struct error *err)
{
    const struct explain_question *question = explained->question;
    struct principal *principal = &explained->principal;

    const char *robot = robot_of(question);

    if (question->is_own && (question->past == NULL || robot == NULL)) *principal = *question->asker;
    else if (robot != NULL) TRY(find_robot(explained, robot, err));
    else {
        *principal = (struct principal){.kind = PRINCIPAL_EXTERNAL, .expires_ms = INT64_MAX};
        set_text(principal->issuer, sizeof principal->issuer, question->issuer);
        set_text(principal->subject, sizeof principal->subject, question->subject);
        if (trust_is_rule(principal) && !may_know_rule(explained, question->subject))
            return failure(err, ERROR_NOT_FOUND, "there is no trust rule of this name that you may see");
    }
    bound(question->scope, principal);
    return SUCCESS;
}

/*
 * Whether somebody that asks about itself may know of the thing today. Names and labels are those of now, so whoever has lost its role would learn
 * from its past what became of the thing.
 */
static bool may_know_now(const struct explained *explained)
{
    struct principal asker = *explained->question->asker;

    asker.is_limited = false;
    const enum authz_verdict verdict = authz_snapshot_authorize(explained->now->authz, &asker, explained->pair.action,
                                                                &explained->pair.resource, clock_wall_ms())
                                           .verdict;
    return !explained->question->is_own || verdict == AUTHZ_ALLOWED || verdict == AUTHZ_NOT_ALLOWED;
}

static struct result describe_principal(const struct explained *explained, json_t *answer, struct error *err)
{
    const struct principal *principal = &explained->principal;
    const bool is_robot = principal->kind == PRINCIPAL_ROBOT, is_rule = trust_is_rule(principal);
    static const struct uuid nowhere = {{0}}; /* where persons come from tells that an organisation is there */
    const struct uuid *organisation = may_know_now(explained) ? &explained->pair.resource.organisation : &nowhere;
    const struct persons_scope where = {explained->context->snapshot->authz, organisation, explained->question->now_ms};
    const struct persons persons = persons_of(&where, principal);
    char key[PRINCIPAL_KEY_SIZE];

    principal_key(principal, key);
    json_t *value = json_pack("{s:s, s:s, s:s*, s:s, s:s?}", "kind",
                              is_robot  ? "robot"
                              : is_rule ? "rule"
                                        : "external",
                              "name", principal->subject, "issuer", is_robot || is_rule ? NULL : principal->issuer, "principal",
                              key, "person", persons_are_one(&persons) ? persons.each[0].key : NULL);
    return json_object_set_new(answer, "who", value) == 0 ? SUCCESS : no_memory(err);
}

/* ---- roles ---- */

static json_t *describe_role(const struct explained *explained, const struct authz_binding *binding)
{
    const struct authz_answer *rights = &explained->rights;
    const bool is_of_rule = strcmp(binding->granted_by, "rule") == 0;
    const char *group = group_giver(binding->granted_by), *glass = glass_giver(binding->granted_by);
    const bool is_bound = !is_of_rule && group == NULL && glass == NULL;
    const bool decides = rights->verdict == AUTHZ_ALLOWED && uuid_equal(&rights->binding, &binding->id);
    const struct officer_entry *officer =
        officer_entry_of(authz_snapshot_rules(explained->context->snapshot->authz), binding, explained->question->now_ms);
    char id[UUID_TEXT_SIZE], expires[CLOCK_TEXT_SIZE];

    uuid_format(&binding->id, id);
    clock_format(binding->expires_ms, expires);
    return json_pack("{s:s, s:o*, s:s*, s:s, s:s, s:s*, s:s*, s:s*, s:s*, s:b, s:b}", "role", binding_role_name(binding),
                     "role_version", binding->own.version == 0 ? NULL : json_integer((json_int_t)binding->own.version),
                     "bound_as", binding->is_unsigned ? role_name(binding->bound_as) : NULL, "scope",
                     held_scope(&explained->context->snapshot->tenancy, binding), "origin",
                     is_of_rule      ? "rule"
                     : group != NULL ? "group"
                     : glass != NULL ? "break-glass"
                                     : "binding",
                     "document",
                     is_of_rule        ? explained->principal.subject
                     : group != NULL   ? group
                     : glass != NULL   ? glass
                     : officer != NULL ? officer->name
                                       : NULL,
                     "binding", is_bound ? id : NULL, "granted_by", is_bound ? binding->granted_by : NULL, "expires",
                     binding->expires_ms == 0 ? NULL : expires, "permits",
                     binding_permits(binding, explained->pair.action) ? 1 : 0, "decides", decides ? 1 : 0);
}

static struct result describe_roles(const struct explained *explained, json_t *answer, struct error *err)
{
    const struct authz_binding *bindings[BINDINGS_COVERING_MAX];
    const size_t count = authz_snapshot_covering(explained->context->snapshot->authz, &explained->principal,
                                                 &explained->pair.resource, explained->question->now_ms, bindings);
    OWNED_JSON list = json_array();

    for (size_t i = 0; i < count; i++)
        if (json_array_append_new(list, describe_role(explained, bindings[i])) != 0) return no_memory(err);
    return json_object_set(answer, "roles", list) == 0 ? SUCCESS : no_memory(err);
}

/* ---- the answer ---- */

static struct result describe_denials(const struct explained *explained, json_t *answer, struct error *err)
{
    OWNED_JSON list = json_array();

    for (size_t i = 0; i < decision_denial_count(explained->decision); i++) {
        const struct denial *denial = decision_denial(explained->decision, i);
        json_t *value = json_pack("{s:s, s:s, s:s, s:s, s:s}", "rule", denial->rule, "policy", denial->policy, "message",
                                  denial->message, "missing", denial->missing, "failed", denial->failed);
        if (json_array_append_new(list, value) != 0) return no_memory(err);
    }
    return json_object_set(answer, "denials", list) == 0 ? SUCCESS : no_memory(err);
}

static struct result describe_token(const struct explained *explained, json_t *answer, struct error *err)
{
    const struct action_pair *pair = &explained->pair;
    const bool covers = principal_covers(&explained->principal, pair->action, &pair->resource);

    if (explained->question->scope == NULL) return SUCCESS;
    return json_object_set_new(answer, "token_covers", json_boolean(covers)) == 0 ? SUCCESS : no_memory(err);
}

static struct result describe(const struct explained *explained, json_t *operations, json_t **answer_out, struct error *err)
{
    static const char *const verdicts[] = {"allow", "deny", "hide", "challenge"};
    const enum verdict verdict = decision_verdict(explained->decision);
    const char *set = decision_policy_digest(explained->decision);
    OWNED_JSON changes = json_array();
    OWNED_JSON answer =
        json_pack("{s:b, s:s, s:s, s:s, s:I, s:s*, s:O, s:O}", "allowed", verdict == VERDICT_ALLOW ? 1 : 0, "verdict",
                  verdicts[verdict], "action", action_name(explained->pair.action), "resource", explained->pair.resource.name,
                  "authorization_epoch", (json_int_t)decision_epoch(explained->decision), "policy_set",
                  set[0] == '\0' ? NULL : set, "operations", operations, "changes", changes);

    if (answer == NULL || changes == NULL) return no_memory(err);
    TRY(describe_principal(explained, answer, err));
    TRY(describe_roles(explained, answer, err));
    TRY(describe_token(explained, answer, err));
    TRY(describe_denials(explained, answer, err));
    TRY(explain_changes(explained, changes, err));
    *answer_out = GIVE(answer);
    return SUCCESS;
}

static struct result decide_and_describe(struct explained *explained, struct decision_context *context, json_t **answer_out,
                                         struct error *err)
{
    OWNED_JSON list = json_array();
    struct operations operations = {.watch = {.operation = watch_operation}, .list = list};
    OWNED(decision) *decision = NULL;

    if (list == NULL) return no_memory(err);
    context->watch = &operations.watch;
    TRY(decide_request(context, &decision, err));
    explained->decision = decision;
    explained->rights = authz_snapshot_authorize(context->snapshot->authz, &explained->principal, explained->pair.action,
                                                 &explained->pair.resource, context->request->now_ms);
    return describe(explained, list, answer_out, err);
}

static void take_thing(const struct permit *permit, const struct snapshot *snapshot, const struct explain_question *question,
                       struct action_pair *pair)
{
    pair->action = question->action;
    pair->resource = question->thing;
    if (question->is_own) {
        (void)permit_resource(permit, ACTION_AUTHZ_ASK);
        tenancy_resolve(&snapshot->tenancy, question->thing.name, &pair->resource);
        pair->resource.kind = question->thing.kind;
    } else pair->resource = *permit_resource(permit, ACTION_AUTHZ_EXPLAIN);
    memcpy(pair->resource.detail, question->thing.detail, sizeof pair->resource.detail);
    if (question->thing.region[0] != '\0') memcpy(pair->resource.region, question->thing.region, sizeof pair->resource.region);
}

/* ---- the past ---- */

/* Names and labels are those of now. */
static struct result go_back(const struct permit *permit, const struct explained *explained, struct snapshot *then,
                             struct error *err)
{
    const struct explain_question *question = explained->question;
    const struct history_question asked = {.action = question->is_own ? ACTION_AUTHZ_ASK : ACTION_AUTHZ_EXPLAIN,
                                           .robot = robot_of(question),
                                           .issuer = question->is_own ? question->asker->issuer : question->issuer,
                                           .subject = question->is_own ? question->asker->subject : question->subject,
                                           .organisation = &explained->pair.resource.organisation,
                                           .wall_ms = question->now_ms};

    if (!may_know_now(explained))
        return failure(err, ERROR_NOT_FOUND, "you have no role there today, so the past of it is not explained to you");
    then->epoch = explained->now->epoch;
    then->tenancy = explained->now->tenancy;
    then->names = explained->now->names;
    const struct policy_past past = {asked.action, question->past->pg, question->past->keyd, question->now_ms};
    TRY(policy_set_then(permit, &past, &then->set, err));
    return authz_history(permit, question->past->pg, explained->now->authz, &asked, &then->authz, err);
}

static struct result explain_then(const struct permit *permit, struct explained *explained, struct decision_context *context,
                                  struct decision_request *request, json_t **answer_out, struct error *err)
{
    struct snapshot then = {.epoch = 0};
    struct result result = SUCCESS;

    if (explained->question->past != NULL) {
        result = go_back(permit, explained, &then, err);
        context->snapshot = &then;
    }
    if (result.ok) result = find_principal(explained, err);
    request->principal = &explained->principal;
    request->pairs[0] = explained->pair;
    if (result.ok) result = decide_and_describe(explained, context, answer_out, err);
    authz_snapshot_free(then.authz);
    policy_set_free(then.set);
    return result;
}

struct result decider_explain(const struct permit *permit, struct decider *decider, const struct explain_question *question,
                              json_t **answer_out, struct error *err)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    struct decision_request request = {.pair_count = 1, .client = question->client, .now_ms = question->now_ms};
    struct decision_context context = decider_context(decider, snapshot, &request);
    struct explained explained = {.context = &context, .question = question, .now = snapshot};

    if (context.is_stale)
        return failure(err, ERROR_UNAVAILABLE, "this gateway can't tell which rights and policies are in force");
    take_thing(permit, snapshot, question, &explained.pair);
    return explain_then(permit, &explained, &context, &request, answer_out, err);
}

bool decider_explain_token(const struct permit *permit, struct decider *decider, const struct explain_question *question)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    struct action_pair pair = {.action = question->action};

    take_thing(permit, snapshot, question, &pair);
    const struct token_demand demand =
        token_demand_of(authz_snapshot_rules(snapshot->authz), &pair.resource.organisation, question->now_ms);
    if (demand.signed_acts && act_is_signed(question->action)) return true;
    if (question->is_own) return token_demand_refusal(&demand, question->asker) != NULL;
    return demand.any || demand.key || demand.certificate || demand.lifetime_max_s > 0;
}
