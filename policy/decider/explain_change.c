/* The smallest change for each reason of a denial: a role, a scope of a token, a fact, a rule of a policy. */
#include <stdio.h>
#include <string.h>

#include "authz/scim_entry.h"
#include "authz/trust_rules.h"
#include "policy/decider/decide_priv.h"
#include "policy/decider/explain_priv.h"
#include "policy/decider/place.h"
#include "policy/evaluate.h"

#define TEXT_SIZE  512
#define TOKEN_SIZE 320 /* one repository and its rights */

/* A change that a person can make. */
struct change_text {
    const char *kind; /* "role", "token", "credential", "policy", "nothing" */
    const char *rule;
    char text[TEXT_SIZE], role[ROLE_NAME_SIZE], scope[RESOURCE_NAME_MAX + 1], token[TOKEN_SIZE];
};

/* Adds it unless it is there: several operations may want the same. */
static struct result add(json_t *changes, const struct change_text *change, struct error *err)
{
    json_t *value =
        json_pack("{s:s, s:s, s:s, s:s*, s:s*, s:s*}", "kind", change->kind, "rule", change->rule, "text", change->text, "role",
                  change->role[0] == '\0' ? NULL : change->role, "scope", change->role[0] == '\0' ? NULL : change->scope,
                  "token_scope", change->token[0] == '\0' ? NULL : change->token);

    bool is_there = value == NULL;

    for (size_t i = 0; i < json_array_size(changes) && !is_there; i++)
        is_there = json_equal(json_array_get(changes, i), value) != 0;
    if (is_there && value != NULL) {
        json_decref(value);
        return SUCCESS;
    }
    return json_array_append_new(changes, value) == 0 ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no memory for an explanation");
}

/* ---- roles ---- */

static size_t permissions_of(enum role role)
{
    size_t count = 0;

    for (enum action action = 0; action < ACTION_COUNT; action++) count += role_permits(role, action);
    return count;
}

/* The narrowest kind of scope, at or above the thing, on which the role may be bound. */
static bool find_scope_kind(enum role role, enum resource_kind thing, enum resource_kind *kind_out)
{
    for (int kind = (int)thing; kind >= (int)RESOURCE_SYSTEM; kind--)
        if (role_allows_scope(role, (enum resource_kind)kind)) {
            *kind_out = (enum resource_kind)kind;
            return true;
        }
    return false;
}

/* The first segments of a name: one for an organisation, two for a project. */
static void cut_scope(const char *name, enum resource_kind kind, char scope_out[RESOURCE_NAME_MAX + 1])
{
    size_t length = strlen(name), left = kind == RESOURCE_ORGANISATION ? 1 : 2;

    if (kind == RESOURCE_SYSTEM) length = 0;
    for (size_t i = 0; kind != RESOURCE_REPOSITORY && i < length && left > 0; i++)
        if (name[i] == '/' && --left == 0) length = i;
    (void)snprintf(scope_out, RESOURCE_NAME_MAX + 1, "%.*s", (int)length, name);
}

/* The role with the fewest permissions that permits the action. Nobody can give break-glass alone. */
static bool find_role(const struct action_pair *pair, enum role *role_out, enum resource_kind *kind_out)
{
    size_t fewest = SIZE_MAX;
    enum resource_kind kind = RESOURCE_SYSTEM;

    for (enum role role = 0; role < ROLE_COUNT; role++) {
        const bool fits =
            role != ROLE_BREAK_GLASS && role_permits(role, pair->action) && find_scope_kind(role, pair->resource.kind, &kind);
        const size_t count = fits ? permissions_of(role) : SIZE_MAX;
        if (count >= fewest) continue;
        fewest = count;
        *role_out = role;
        *kind_out = kind;
    }
    return fewest != SIZE_MAX;
}

static void want_role(const struct explained *explained, struct change_text *change)
{
    enum resource_kind kind = RESOURCE_SYSTEM;
    enum role role = ROLE_CONSUMER;

    if (!find_role(&explained->pair, &role, &kind)) {
        change->kind = "nothing";
        (void)snprintf(change->text, sizeof change->text, "no role permits %s: only the registry itself or a runner does it",
                       action_name(explained->pair.action));
        return;
    }
    change->kind = "role";
    (void)snprintf(change->role, sizeof change->role, "%s", role_name(role));
    cut_scope(explained->pair.resource.name, kind, change->scope);
    (void)snprintf(change->text, sizeof change->text, "the role %s on %s", change->role,
                   change->scope[0] == '\0' ? "the registry" : change->scope);
}

/* ---- the rest ---- */

static struct result want_token(const struct explained *explained, struct change_text *change, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(TOKEN_SIZE);
    struct token_scope scope;

    change->kind = "token";
    token_scope_of_pairs(&explained->pair, 1, &scope);
    TRY(token_scope_write(&scope, &text, err));
    (void)snprintf(change->token, sizeof change->token, "%s", buffer_text(&text));
    (void)snprintf(change->text, sizeof change->text, "a token with the scope %s", change->token);
    return SUCCESS;
}

static void want_credential(const struct explained *explained, struct change_text *change)
{
    const struct principal *principal = &explained->principal;

    change->kind = "credential";
    if (principal->kind == PRINCIPAL_ROBOT)
        (void)snprintf(change->text, sizeof change->text,
                       "a new secret of the robot (sijil admin robot rotate): its secret has ended");
    else if (strcmp(principal->issuer, TRUST_ISSUER) == 0)
        (void)snprintf(change->text, sizeof change->text, "a trust rule of this name in force, and trust in its issuer");
    else if (!scim_admits(explained->context->snapshot->authz, principal->issuer, principal->subject,
                          explained->question->now_ms))
        (void)snprintf(change->text, sizeof change->text,
                       "the directory of the issuer (SCIM): it has deactivated the person, or not provisioned it");
    else (void)snprintf(change->text, sizeof change->text, "trust in the issuer (sijil admin issuer add)");
}

/* What each rule of the system wants of the policies. */
static const char *remedy_of(const char *rule)
{
    static const struct {
        const char *rule, *text;
    } remedies[] = {
        {"SYS-NO-POLICY", "a policy set with a policy whose scope has this name"},
        {"SYS-CLOSED", "a permit of this policy that matches the label and the operation; of \"sys\": in any policy in scope"},
        {"SYS-PIN-MISSING", "a set that has the policy again, or that declassifies the repository for it"},
        {"SYS-UNLABELLED", "a label: of the project (sijil admin project label), or by a policy in scope"},
        {"RETENTION-CONFLICT", "policies whose longest minimum of retention is not above their shortest maximum"},
        {"SYS-NOT-FOUND", "the project: it is not there"},
        {"SYS-STALE", "the same question once more: names or rights have just changed"},
        {"SYS-QUARANTINE", "a region that agrees with its record: repair it, then 'sijil region check'"},
        {"SYS-DRAINING", "the region taken into use again ('sijil region drain --end'), or a project in another region"},
        {"SYS-NOT-CURRENT",
         "the sijil-keyd of the region told which policy set is in force: 'sijil region check' says what is wrong"},
        {"SYS-RETIRED", "a project in another region: nothing comes back to a retired one"},
        {PLACE_RULE, "the project moved to a region that its policies allow, or an exception for this digest"},
        {"SYS-LIMIT", "fewer or smaller policies for this name"},
    };

    for (size_t i = 0; i < sizeof remedies / sizeof remedies[0]; i++)
        if (strcmp(rule, remedies[i].rule) == 0) return remedies[i].text;
    return NULL;
}

/* Rules about who may do it: they want another person, or a signature. */
static bool is_of_persons(const char *rule)
{
    static const char *const rules[] = {"SYS-GRANT", "SYS-SELF-GRANT", "SYS-BOTH-OFFICERS", "SYS-OFFICER", "SYS-LAST-OFFICER"};

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (strcmp(rule, rules[i]) == 0) return true;
    return false;
}

static void want_policy(const struct denial *denial, struct change_text *change)
{
    const char *remedy = remedy_of(denial->rule);

    change->kind = is_of_persons(denial->rule) ? "person" : "policy";
    if (remedy != NULL) (void)snprintf(change->text, sizeof change->text, "%s", remedy);
    else if (strcmp(change->kind, "person") == 0) (void)snprintf(change->text, sizeof change->text, "%s", denial->message);
    else
        (void)snprintf(
            change->text, sizeof change->text,
            "that %.79s in %.79s holds (proof of: %.127s; another value of: %.127s), or an exception from it for this content",
            denial->rule, denial->policy, denial->missing[0] == '\0' ? "nothing" : denial->missing,
            denial->failed[0] == '\0' ? "nothing" : denial->failed);
}

static struct result add_change(const struct explained *explained, const struct denial *denial, json_t *changes,
                                struct error *err)
{
    struct change_text change = {.rule = denial->rule};

    if (strcmp(denial->rule, "SYS-NO-BINDING") == 0) want_role(explained, &change);
    else if (strcmp(denial->rule, "SYS-SCOPE") == 0) TRY(want_token(explained, &change, err));
    else if (strcmp(denial->rule, "SYS-NOT-LIVE") == 0) want_credential(explained, &change);
    else want_policy(denial, &change);
    return add(changes, &change, err);
}

/* ---- what the policies would then say ---- */

static struct result add_denials_of(const struct policy_decision *decision, json_t *changes, struct error *err)
{
    for (size_t i = 0; i < policy_decision_denial_count(decision); i++) {
        const struct policy_denial *denial = policy_decision_denial(decision, i);
        const char *remedy = remedy_of(denial->rule);
        struct change_text change = {.kind = "policy", .rule = denial->rule};
        if (remedy != NULL) (void)snprintf(change.text, sizeof change.text, "then also: %s (%.79s)", remedy, denial->policy);
        else
            (void)snprintf(change.text, sizeof change.text, "then also: that %.79s in %.79s holds", denial->rule, denial->policy);
        TRY(add(changes, &change, err));
    }
    return SUCCESS;
}

/* What lies where it may not be is read by nobody, whatever the role. */
static struct result add_place(const struct explained *explained, json_t *changes, struct error *err)
{
    const char *detail = explained->pair.resource.detail;
    const bool is_digest = strncmp(detail, "sha256:", strlen("sha256:")) == 0 && strlen(detail) == SHA_TEXT_SIZE - 1;
    struct change_text change = {.kind = "policy", .rule = PLACE_RULE};

    if (!place_refuses(explained->context, &explained->pair, is_digest ? detail : "")) return SUCCESS;
    (void)snprintf(change.text, sizeof change.text, "then also: %s", remedy_of(PLACE_RULE));
    return add(changes, &change, err);
}

/*
 * Where rights hide the thing, the policies were not asked. Whoever may know of the thing learns what they would say then: else the named role
 * would be given in vain.
 */
static struct result add_hidden_denials(const struct explained *explained, json_t *changes, struct error *err)
{
    const unsigned operations = action_operations(explained->pair.action);
    const enum verdict verdict = decision_verdict(explained->decision);

    if (explained->question->is_own || verdict == VERDICT_ALLOW || verdict == VERDICT_DENY) return SUCCESS;
    if (explained->context->snapshot->set == NULL || explained->pair.resource.kind != RESOURCE_REPOSITORY) return SUCCESS;
    for (unsigned i = 0; i < OP_COUNT; i++) {
        OWNED(policy_decision) *decision = NULL;
        const struct repository_query query = {.name = explained->pair.resource.name, .op = (enum policy_operation)(1U << i)};
        if ((operations >> i & 1) == 0) continue;
        TRY(evaluate_repository(explained->context, &query, &decision, err));
        TRY(add_denials_of(decision, changes, err));
    }
    return add_place(explained, changes, err);
}

struct result explain_changes(const struct explained *explained, json_t *changes, struct error *err)
{
    for (size_t i = 0; i < decision_denial_count(explained->decision); i++)
        TRY(add_change(explained, decision_denial(explained->decision, i), changes, err));
    return add_hidden_denials(explained, changes, err);
}
