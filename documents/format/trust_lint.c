/*
 * The linter of trust rules. A token names who asks, but most names in it can be given to somebody else: a repository, a project, a branch, an
 * environment. So a rule needs the claim that is never given twice, and the one that says which code runs.
 */
#include <string.h>

#include "documents/format/trust_rule.h"

/* The claims of a system whose tokens are known. */
struct known_system {
    const char *issuer;        /* that only tokens of this system have; NULL: anybody may run it */
    const char *id;            /* the claim that is never given twice; NULL: the rule names it */
    const char *why_id;        /* without it */
    const char *const pins[5]; /* the claims that say which code runs; one is enough */
    const char *why_pin;       /* without one */
};

static const struct known_system systems[TRUST_SYSTEM_COUNT] = {
    [TRUST_GITHUB] =
        {"https://token.actions.githubusercontent.com",
         "/repository_id",
         "names of repositories and their owners can be given to others",
         {"/ref", "/job_workflow_ref", "/workflow_ref", NULL},
         "/ref, /job_workflow_ref or /workflow_ref is missing: any branch could use the rule; an environment alone is "
         "open to every branch unless it is protected"},
    [TRUST_GITLAB] =
        {"https://gitlab.com",
         "/project_id",
         "paths of projects and groups can be given to others",
         {"/ref", "/ref_path", "/ci_config_ref_uri", NULL},
         "/ref with /ref_type, /ref_path or /ci_config_ref_uri is missing: any branch could use the rule; an environment "
         "alone is open to every branch unless it is protected"},
    [TRUST_KUBERNETES] = {NULL,
                          "/kubernetes.io/serviceaccount/uid",
                          "a service account that is made anew under the same name is another one",
                          {"/sub", NULL},
                          "/sub is missing: it says which service account of which namespace runs the code"},
    [TRUST_JENKINS] = {NULL, NULL, "", {"/sub", NULL}, "/sub is missing: it is the job, which says which code runs"},
    [TRUST_GENERIC] = {NULL, NULL, "", {"/sub", NULL}, "/sub is missing: it says who asks"},
};

/* Claims that a system gives to others, or that a user chooses. */
static const char *const mutable_claims[] = {
    "/actor",      "/branch",           "/email",          "/environment",        "/event_name", "/groups",       "/job_name",
    "/name",       "/namespace",        "/namespace_path", "/preferred_username", "/project",    "/project_path", "/ref",
    "/repository", "/repository_owner", "/user_email",     "/user_login",         "/username",   "/workflow",
};

static const struct claim_condition *condition_on(const struct trust_rule *rule, const char *pointer)
{
    for (size_t i = 0; i < rule->condition_count; i++)
        if (strcmp(rule->conditions[i].pointer, pointer) == 0) return &rule->conditions[i];
    return NULL;
}

/* Whole values. A prefix of an id is no id. */
static bool is_exact(const struct trust_rule *rule, const char *pointer)
{
    const struct claim_condition *condition = condition_on(rule, pointer);

    return condition != NULL && (condition->test == CLAIM_EQ || condition->test == CLAIM_IN);
}

/* A rule for GitHub's issuer that calls it "generic" would pass by the demands on GitHub's claims. */
static struct result check_issuer(const struct trust_rule *rule, struct error *err)
{
    for (enum trust_system system = 0; system < TRUST_SYSTEM_COUNT; system++)
        if (systems[system].issuer != NULL && strcmp(systems[system].issuer, rule->issuer) == 0 && system != rule->system)
            return failure(err, ERROR_INVALID, "system: %s is the issuer of %s, so the rule needs that system's claims",
                           rule->issuer, trust_system_name(system));
    return SUCCESS;
}

static bool is_mutable(const char *pointer)
{
    for (size_t i = 0; i < sizeof mutable_claims / sizeof mutable_claims[0]; i++)
        if (strcmp(mutable_claims[i], pointer) == 0) return true;
    return false;
}

static struct result check_named_ids(const struct trust_rule *rule, struct error *err)
{
    if (rule->immutable_count == 0)
        return failure(
            err, ERROR_INVALID,
            "immutable is missing: tokens of %s have no id that is known here, so the rule names the claims that nobody else "
            "ever gets, such as [\"/sub\"] if subjects are never used again",
            trust_system_name(rule->system));
    for (size_t i = 0; i < rule->immutable_count; i++) {
        const char *pointer = rule->immutable[i];
        if (is_mutable(pointer))
            return failure(err, ERROR_INVALID, "immutable: %.100s is a name that others can get, or choose", pointer);
        if (!is_exact(rule, pointer))
            return failure(err, ERROR_INVALID, "immutable: match must have %.100s with eq or in, otherwise it says nothing",
                           pointer);
    }
    return SUCCESS;
}

static struct result check_id(const struct trust_rule *rule, struct error *err)
{
    const struct known_system *system = &systems[rule->system];

    if (system->id == NULL) return check_named_ids(rule, err);
    if (rule->immutable_count > 0)
        return failure(err, ERROR_INVALID, "immutable is for jenkins and generic: a rule for %s has %s",
                       trust_system_name(rule->system), system->id);
    if (is_exact(rule, system->id)) return SUCCESS;
    return failure(err, ERROR_INVALID, "%s with eq or in is missing: %s", system->id, system->why_id);
}

/* A workflow is pinned with the version behind its "@": without one, every branch's workflow of that name would match. */
static bool has_version(const char *text)
{
    const char *at = strchr(text, '@');

    return at != NULL && at[1] != '\0';
}

static bool all_have_versions(const json_t *wanted)
{
    for (size_t i = 0; i < json_array_size(wanted); i++) {
        const char *one = json_string_value(json_array_get(wanted, i));
        if (one == NULL || !has_version(one)) return false;
    }
    return json_is_array(wanted) || (json_is_string(wanted) && has_version(json_string_value(wanted)));
}

static bool is_workflow(const char *pointer)
{
    return strcmp(pointer, "/job_workflow_ref") == 0 || strcmp(pointer, "/workflow_ref") == 0 ||
           strcmp(pointer, "/ci_config_ref_uri") == 0;
}

static bool is_ref(const char *pointer)
{
    return strcmp(pointer, "/ref") == 0 || strcmp(pointer, "/ref_path") == 0;
}

static bool is_every_ref(const struct claim_condition *condition)
{
    static const char *const all[] = {"refs/", "refs/heads/", "refs/tags/", "refs/pull/", "refs/merge-requests/"};

    for (size_t i = 0; condition->test == CLAIM_PREFIX && i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i], json_string_value(condition->wanted)) == 0) return true;
    return false;
}

static struct result check_pin(const struct trust_rule *rule, const char *pointer, struct error *err)
{
    const struct claim_condition *condition = condition_on(rule, pointer);

    if (is_workflow(pointer) && !all_have_versions(condition->wanted))
        return failure(err, ERROR_INVALID,
                       "%s: the workflow is not pinned: its ref follows the @, as in .../train.yml@refs/heads/main", pointer);
    if (!is_ref(pointer) && !is_exact(rule, pointer))
        return failure(err, ERROR_INVALID, "%s: eq or in expected, because a prefix also matches what others make", pointer);
    if (is_ref(pointer) && is_every_ref(condition))
        return failure(err, ERROR_INVALID, "%s: this prefix is that of every branch or tag, so it says nothing", pointer);
    if (rule->system == TRUST_GITLAB && strcmp(pointer, "/ref") == 0 && !is_exact(rule, "/ref_type"))
        return failure(err, ERROR_INVALID,
                       "/ref_type with eq is missing: without it a tag with the name of the branch would match");
    return SUCCESS;
}

struct result trust_rule_lint(const struct trust_rule *rule, struct error *err)
{
    const struct known_system *system = &systems[rule->system];
    bool is_pinned = false;

    TRY(check_issuer(rule, err));
    TRY(check_id(rule, err));
    for (size_t i = 0; system->pins[i] != NULL; i++) {
        if (condition_on(rule, system->pins[i]) == NULL) continue;
        TRY(check_pin(rule, system->pins[i], err));
        is_pinned = true;
    }
    return is_pinned ? SUCCESS : failure(err, ERROR_INVALID, "%s", system->why_pin);
}
