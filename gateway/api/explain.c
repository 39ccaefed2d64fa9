/* POST /api/v1/authz/explain: why somebody may do something, or may not (docs/identity.md, "Decisions explained"). */
#include "policy/decider/explain.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "authz/binding.h"
#include "authz/claims.h"
#include "authz/robot.h"
#include "authz/step_up.h"
#include "authz/trust_rules.h"
#include "base/clock.h"
#include "base/text.h"
#include "gateway/api/api_priv.h"
#include "gateway/api/audit_priv.h"
#include "registry/names/reference.h"

SCHEMA(explain_wanted, "a question: may somebody do this? Without robot, rule and subject it is about the caller itself",
       HAS_TEXT("robot", OPTIONAL, FORM_FREE, 1, ROBOT_NAME_SIZE - 1, "the name of a robot"),
       HAS_TEXT("rule", OPTIONAL, FORM_FREE, 1, TRUST_KEY_SIZE - 1, "the scope of a trust rule, a colon, and its id"),
       HAS_TEXT("issuer", OPTIONAL, FORM_URL, 1, 255, "the URL of the subject's issuer"),
       HAS_TEXT("subject", OPTIONAL, FORM_FREE, 1, CLAIMS_SUBJECT_MAX, "the subject, as its tokens name it"),
       HAS_TEXT("action", REQUIRED, FORM_FREE, 1, 64, "an action, as the log names it: manifest.read"),
       HAS_TEXT("resource", REQUIRED, FORM_FREE, 0, RESOURCE_NAME_MAX,
                "organisation, organisation/project, organisation/project/repository; empty: the registry"),
       HAS_TEXT("detail", OPTIONAL, FORM_FREE, 1, RESOURCE_DETAIL_MAX,
                "what exactly: the digest of the content, for exceptions of policies"),
       HAS_TEXT("token_scope", OPTIONAL, FORM_FREE, 1, 1024,
                "of the token that it would bring; left out: a token without bounds"),
       HAS_TEXT("address", OPTIONAL, FORM_FREE, 1, 45,
                "where it would come from; left out: unknown, or of the caller itself the address of this request"),
       HAS_TEXT("runner", OPTIONAL, FORM_FREE, 1, 72,
                "of what trains, where the runner is: a region, or attested: and a region; left out: the home region"),
       HAS_TIME("at", OPTIONAL, "the moment, also in the past; left out: now"))

PART(explained_principal, "whose rights were asked", HAS_WORD("kind", REQUIRED, "robot external rule", "what it is"),
     HAS_TEXT("name", REQUIRED, FORM_FREE, 1, 255, "of the robot, the subject or the rule"),
     HAS_TEXT("issuer", OPTIONAL, FORM_FREE, 1, 255, "of a subject"),
     HAS_TEXT("principal", REQUIRED, FORM_FREE, 1, 79, "as documents name it"),
     HAS_TEXT("person", REQUIRED | NULLABLE, FORM_FREE, 1, 0, "the one person that it counts as; null: nobody, or several"))
PART(explained_role, "a role whose scope has the thing", HAS_TEXT("role", REQUIRED, FORM_FREE, 1, 64, "its name"),
     HAS_COUNT("role_version", OPTIONAL, "of a role of a signed document: the version that is in force"),
     HAS_TEXT("bound_as", OPTIONAL, FORM_FREE, 1, 64,
              "of an unsigned-officer: the role of its binding, which no document of officers makes count"),
     HAS_TEXT("scope", REQUIRED, FORM_FREE, 0, 255, "where; empty: the registry"),
     HAS_WORD("origin", REQUIRED, "binding rule group break-glass",
              "a binding, or a signed document: a trust rule, roles of groups, a broken glass"),
     HAS_TEXT("document", OPTIONAL, FORM_FREE, 1, 255,
              "the name of the document; of a binding: of the document of officers that makes it count"),
     HAS_ID("binding", OPTIONAL, "of a binding"),
     HAS_TEXT("granted_by", OPTIONAL, FORM_FREE, 1, 79, "of a binding: the principal that granted it"),
     HAS_TIME("expires", OPTIONAL, "when it ends"), HAS_FLAG("permits", REQUIRED, "whether roles of this name permit the action"),
     HAS_FLAG("decides", REQUIRED, "whether this one allows it"))
PART(explained_rule, "a rule of a policy", HAS_TEXT("policy", REQUIRED, FORM_FREE, 1, 79, "with its version"),
     HAS_TEXT("rule", REQUIRED, FORM_FREE, 1, 64, "in it"))
PART(explained_operation, "what the policies say of one operation", HAS_TEXT("operation", REQUIRED, FORM_FREE, 1, 16, "its name"),
     HAS_TEXT("scope", REQUIRED, FORM_FREE, 0, 255, "the name that was evaluated"),
     HAS_TEXT("target", REQUIRED, FORM_FREE, 1, 255,
              "the region, the place of the runner, or the network of the set that has the client; client: none has"),
     HAS_ANY("label", REQUIRED, "of the content; null: it has none"), HAS_FLAG("allowed", REQUIRED, "by the policies"),
     HAS_OBJECT("permitted_by", OPTIONAL, schema_explained_rule, "the first permit of a policy in scope"),
     HAS_ANY("denials", REQUIRED, "rules that deny it, with the facts that they lack or contradict"),
     HAS_ANY("obligations", REQUIRED, "duties, also of an operation that is denied"),
     HAS_ANY("exceptions", REQUIRED, "rules that an exception has lifted"), HAS_ANY("warnings", REQUIRED, "of the policies"))
PART(explained_denial, "a reason, as a refusal has it", HAS_TEXT("rule", REQUIRED, FORM_FREE, 1, 64, "of the system or a policy"),
     HAS_TEXT("policy", REQUIRED, FORM_FREE, 1, 79, "sys: of the system"),
     HAS_TEXT("message", REQUIRED, FORM_FREE, 0, 303, "for a person"),
     HAS_TEXT("missing", REQUIRED, FORM_FREE, 0, 127, "facts that are not known"),
     HAS_TEXT("failed", REQUIRED, FORM_FREE, 0, 127, "facts that contradict the rule"))
PART(explained_change, "one of the changes that together would allow it",
     HAS_WORD("kind", REQUIRED, "role token credential policy person nothing", "what has to change; nothing: no role permits it"),
     HAS_TEXT("rule", REQUIRED, FORM_FREE, 1, 64, "that asks for it"),
     HAS_TEXT("text", REQUIRED, FORM_FREE, 1, 511, "for a person"),
     HAS_TEXT("role", OPTIONAL, FORM_FREE, 1, 63, "the role with the fewest permissions that would do"),
     HAS_TEXT("scope", OPTIONAL, FORM_FREE, 0, 255, "the narrowest scope of that role; empty: the registry"),
     HAS_TEXT("token_scope", OPTIONAL, FORM_FREE, 1, 319, "of a token that would do"))

SCHEMA(explanation, "a decision, and all that it is made from", HAS_FLAG("allowed", REQUIRED, "whether it may"),
       HAS_WORD("verdict", REQUIRED, "allow deny hide challenge",
                "how a request would be answered: 403 deny, 404 hide, 401 challenge"),
       HAS_TEXT("action", REQUIRED, FORM_FREE, 1, 64, "as it was asked"),
       HAS_TEXT("resource", REQUIRED, FORM_FREE, 0, 255, "as it was asked"),
       HAS_TIME("at", REQUIRED, "the moment that it is about"),
       HAS_COUNT("authorization_epoch", OPTIONAL, "of the rights; left out for a moment in the past"),
       HAS_TEXT("policy_set", OPTIONAL, FORM_DIGEST, 71, 71, "the set in force"),
       HAS_OBJECT("who", REQUIRED, schema_explained_principal, "whose rights"),
       HAS_LIST("roles", REQUIRED, 0, schema_explained_role, "that it has here"),
       HAS_FLAG("token_covers", OPTIONAL, "whether the token's scope has it"),
       HAS_LIST("operations", REQUIRED, 0, schema_explained_operation, "what the policies say; none if rights hide the thing"),
       HAS_LIST("denials", REQUIRED, 0, schema_explained_denial, "the reasons that a refusal would name"),
       HAS_LIST("changes", REQUIRED, 0, schema_explained_change, "the smallest changes: all of them together would allow it"),
       HAS_TEXTS("unknown", REQUIRED, 0, 8, NULL, "what this answer can't know"))

/* The question, read from the body; texts are views of it. */
struct wanted {
    struct explain_question question;
    struct token_scope scope;
    struct sockaddr_storage address;
    bool has_address, is_future, is_past;
};

/* ---- reading ---- */

static bool is_repository(const char *name)
{
    struct repository_name split;
    struct error wrong = {0};

    return repository_name_split(bytes_of_text(name), &split, &wrong).ok || binding_is_pattern(name);
}

static struct result read_thing(const json_t *body, struct resource *thing, struct error *err)
{
    const char *name = json_text_of(body, "resource"), *detail = json_text_of(body, "detail");

    if (name[0] == '\0') thing->kind = RESOURCE_SYSTEM;
    else if (namespace_name_is_valid(bytes_of_text(name))) thing->kind = RESOURCE_ORGANISATION;
    else if (api_is_project_name(name)) thing->kind = RESOURCE_PROJECT;
    else if (is_repository(name)) thing->kind = RESOURCE_REPOSITORY;
    else
        return failure(err, ERROR_INVALID, "a resource is organisation, organisation/project or organisation/project/repository");
    (void)snprintf(thing->name, sizeof thing->name, "%s", name);
    (void)snprintf(thing->detail, sizeof thing->detail, "%s", detail == NULL ? "" : detail);
    return SUCCESS;
}

static struct result read_action(const json_t *body, struct explain_question *question, struct error *err)
{
    const char *name = json_text_of(body, "action");

    if (!action_find(bytes_of_text(name), &question->action))
        return failure(err, ERROR_INVALID, "there is no action called %.64s; the table in docs/identity.md has all of them",
                       name);
    const enum access_right right = action_right(question->action);
    if ((right == RIGHT_PULL || right == RIGHT_PUSH || right == RIGHT_DELETE) && question->thing.kind != RESOURCE_REPOSITORY)
        return failure(err, ERROR_INVALID, "%s is done to a repository: organisation/project/repository", name);
    return SUCCESS;
}

static struct result read_who(const json_t *body, struct explain_question *question, struct error *err)
{
    const char *rule = json_text_of(body, "rule");

    question->robot = json_text_of(body, "robot");
    question->issuer = json_text_of(body, "issuer");
    question->subject = json_text_of(body, "subject");
    if ((question->issuer == NULL) != (question->subject == NULL))
        return failure(err, ERROR_INVALID, "a subject has its issuer beside it");
    const int named = (question->robot != NULL) + (rule != NULL) + (question->subject != NULL);
    if (named > 1) return failure(err, ERROR_INVALID, "a question is about one principal: robot, rule, or issuer and subject");
    question->is_own = named == 0;
    if (rule == NULL) return SUCCESS;
    question->issuer = TRUST_ISSUER;
    question->subject = rule;
    return SUCCESS;
}

/* Where a run would be. Its runner would call from where its record says. */
static struct result read_runner(const json_t *body, struct explain_question *question, struct error *err)
{
    static const size_t mark = sizeof POLICY_ATTESTED_MARK - 1;
    const char *place = json_text_of(body, "runner");

    if (place == NULL) return SUCCESS;
    if ((action_operations(question->action) & OP_TRAIN) == 0)
        return failure(err, ERROR_INVALID, "runner: %s trains nothing", action_name(question->action));
    const bool is_attested = strncmp(place, POLICY_ATTESTED_MARK, mark) == 0;
    question->client.runner = is_attested ? POLICY_RUNNER_ATTESTED : POLICY_RUNNER_ENROLLED;
    if (text_copy(question->thing.region, sizeof question->thing.region, is_attested ? place + mark : place)) return SUCCESS;
    return failure(err, ERROR_INVALID, "runner: the name of a region is too long");
}

static bool read_address(const char *text, struct sockaddr_storage *address)
{
    struct sockaddr_in *four = (struct sockaddr_in *)(void *)address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)address;

    address->ss_family = strchr(text, ':') == NULL ? AF_INET : AF_INET6;
    if (address->ss_family == AF_INET) return inet_pton(AF_INET, text, &four->sin_addr) == 1;
    return inet_pton(AF_INET6, text, &six->sin6_addr) == 1;
}

static struct result read_circumstances(const json_t *body, struct wanted *wanted, struct error *err)
{
    const char *address = json_text_of(body, "address"), *at = json_text_of(body, "at"),
               *scope = json_text_of(body, "token_scope");
    const int64_t now_ms = clock_wall_ms();

    wanted->has_address = address != NULL;
    if (address != NULL && !read_address(address, &wanted->address))
        return failure(err, ERROR_INVALID, "address is an IP address");
    if (scope != NULL) TRY(token_scope_add(&wanted->scope, bytes_of_text(scope), err));
    wanted->question.now_ms = now_ms;
    if (at == NULL) return SUCCESS;
    if (!clock_parse(bytes_of_text(at), &wanted->question.now_ms)) return failure(err, ERROR_INVALID, "at is a time (RFC 3339)");
    wanted->is_future = wanted->question.now_ms > now_ms;
    wanted->is_past = wanted->question.now_ms < now_ms;
    if (!wanted->is_past || json_object_get(body, "rule") == NULL) return SUCCESS;
    return failure(err, ERROR_INVALID,
                   "the roles of a trust rule at an earlier moment are in its document of then: GET /api/v1/trust-rules");
}

static struct result read_wanted(struct request *request, struct wanted *wanted, struct error *err)
{
    const json_t *body = NULL;

    *wanted = (struct wanted){.question = {.asker = request->principal}};
    TRY(request_document(request, &body, err));
    TRY(read_who(body, &wanted->question, err));
    TRY(read_thing(body, &wanted->question.thing, err));
    TRY(read_action(body, &wanted->question, err));
    TRY(read_circumstances(body, wanted, err));
    if (wanted->scope.count > 0 || json_object_get(body, "token_scope") != NULL) wanted->question.scope = &wanted->scope;
    if (wanted->has_address) wanted->question.client.address = (const struct sockaddr *)&wanted->address;
    else if (wanted->question.is_own) wanted->question.client = request_place(request);
    return read_runner(body, &wanted->question, err);
}

/* ---- the target ---- */

/* A subject may be personal data, so the leaf has only its kind; the sealed part of the event has the name. */
static struct result seal_subject(struct request *request, const struct explain_question *question, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(2048);

    TRY(audit_write_condition("subject", question->subject, &text, err));
    TRY(audit_write_condition("issuer", question->issuer, &text, err));
    request->purpose = "an explanation";
    request->search = arena_copy_text(request->arena, buffer_bytes(&text));
    return request->search == NULL ? failure(err, ERROR_NO_MEMORY, "no memory for a question") : SUCCESS;
}

struct result target_authz_explain(struct request *request, struct lookup *lookup, struct error *err)
{
    struct wanted wanted;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_AUTHZ_ASK)) return SUCCESS;
    TRY(read_wanted(request, &wanted, err));
    const struct explain_question *question = &wanted.question;
    const enum action action = question->is_own ? ACTION_AUTHZ_ASK : ACTION_AUTHZ_EXPLAIN;
    const enum resource_kind kind = question->is_own ? RESOURCE_SYSTEM : question->thing.kind;
    struct resource *resource = api_pair(request, action, kind, question->is_own ? "" : question->thing.name);
    (void)snprintf(resource->detail, sizeof resource->detail, "%s%s%.90s", action_name(question->action),
                   question->is_own ? "" : " ",
                   question->is_own          ? ""
                   : question->robot != NULL ? question->robot
                                             : "external");
    return question->is_own || question->robot != NULL ? SUCCESS : seal_subject(request, question, err);
}

/* ---- the answer ---- */

/* The decision does not know of it: gateway/pipeline asks before, of the login that a request brings. Of the caller its own login tells. */
static bool needs_login(const struct wanted *wanted, const struct settings *settings)
{
    const struct explain_question *question = &wanted->question;
    struct principal who = {.kind = question->robot == NULL ? PRINCIPAL_EXTERNAL : PRINCIPAL_ROBOT};
    unsigned age_s = 0;

    if (question->is_own)
        return !step_up_is_met(question->asker, question->action, settings->step_up_acr, question->now_ms, &age_s);
    (void)text_copy(who.issuer, sizeof who.issuer, question->issuer == NULL ? "" : question->issuer);
    return !step_up_is_met(&who, question->action, settings->step_up_acr, question->now_ms, &age_s);
}

/* Nor of what an organisation demands of tokens. */
static bool needs_token(const struct wanted *wanted, const struct request *request, const json_t *answer)
{
    return !wanted->is_past && json_is_true(json_object_get(answer, "allowed")) &&
           decider_explain_token(request->permit, request->gateway->decider, &wanted->question);
}

static struct result add_unknown(const struct wanted *wanted, const struct request *request, json_t *answer, struct error *err)
{
    const struct explain_question *question = &wanted->question;
    static const char *const past[] = {"labels and names of then: they are those of now",
                                       "roles by groups of then, and whether SCIM had ended the person",
                                       "what a role of a signed document then permitted: its version of now counts",
                                       "whether the secret of a robot had ended, and what it then counted as",
                                       "what another role then forbade a grant: only this principal's roles of then are known"};
    OWNED_JSON list = json_array();
    int failures = 0;

    if (question->client.address == NULL && (action_operations(question->action) & OP_OF_CLIENTS) != 0)
        failures |= json_array_append_new(list, json_string("where the client is: give its address"));
    if (question->action == ACTION_PROJECT_LABEL || question->action == ACTION_REPOSITORY_LABEL ||
        question->action == ACTION_PROJECT_CREATE)
        failures |= json_array_append_new(list, json_string("the label that would be asked for: policies may refuse it"));
    if (!wanted->is_past && needs_login(wanted, request->gateway->settings))
        failures |= json_array_append_new(
            list, json_string("whether it has just logged in at its issuer: this action needs a fresh login"));
    if (needs_token(wanted, request, answer))
        failures |= json_array_append_new(
            list,
            json_string(
                "whether its token is as the organisation demands: how long it lives, what it is bound to, and whether its key signs the request"));
    for (size_t i = 0; wanted->is_past && i < sizeof past / sizeof past[0]; i++)
        failures |= json_array_append_new(list, json_string(past[i]));
    if (wanted->is_future)
        failures |=
            json_array_append_new(list, json_string("what changes until then: rights, policies and labels are those of now"));
    if (wanted->is_past) failures |= json_object_del(answer, "authorization_epoch");
    if (failures != 0 || json_object_set(answer, "unknown", list) != 0 || !api_set_time(answer, "at", question->now_ms))
        return failure(err, ERROR_NO_MEMORY, "no memory for an explanation");
    return SUCCESS;
}

static struct result handle_authz_explain(struct request *request, struct pg *pg, struct error *err)
{
    struct wanted wanted;
    OWNED_JSON answer = NULL;

    const struct explain_past past = {pg, request->gateway->keyd};

    TRY(read_wanted(request, &wanted, err));
    if (wanted.is_past) wanted.question.past = &past;
    TRY(decider_explain(request->permit, request->gateway->decider, &wanted.question, &answer, err));
    TRY(add_unknown(&wanted, request, answer, err));
    response_json(request, 200, answer);
    response_header(request, "Cache-Control", "no-store");
    return SUCCESS;
}

const struct handler handler_authz_explain = {.handle = handle_authz_explain};
