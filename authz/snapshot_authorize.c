#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "authz/run_token.h"
#include "authz/scim_entry.h"
#include "authz/snapshot_priv.h"
#include "authz/trust_login.h"

enum resource_kind binding_scope(const struct authz_binding *binding)
{
    if (binding->pattern[0] != '\0') return RESOURCE_REPOSITORY;
    if (!uuid_is_nil(&binding->project)) return RESOURCE_PROJECT;
    return uuid_is_nil(&binding->organisation) ? RESOURCE_SYSTEM : RESOURCE_ORGANISATION;
}

bool binding_is_kept(const struct authz_binding *binding, int64_t now_ms)
{
    return binding->expires_ms == 0 || now_ms < binding->expires_ms;
}

bool binding_is_live(const struct authz_binding *binding, int64_t now_ms)
{
    return binding_is_kept(binding, now_ms) && (binding->role != ROLE_OWN || own_role_is_in_force(&binding->own, now_ms));
}

/* A pattern "acme/models/" and an asterisk contains all names below it, in whole segments. */
static bool pattern_holds(const char *pattern, const char *name)
{
    const size_t length = strlen(pattern);

    if (length >= 2 && strcmp(pattern + length - 2, "/*") == 0)
        return strncmp(pattern, name, length - 1) == 0 && name[length - 1] != '\0';
    return strcmp(pattern, name) == 0;
}

/* A nil id equals nothing: a resource without an id is only in the system's scope. */
static bool same_id(const struct uuid *a, const struct uuid *b)
{
    return !uuid_is_nil(a) && uuid_equal(a, b);
}

bool binding_covers(const struct authz_binding *binding, const struct resource *resource)
{
    switch (binding->scope) {
    case RESOURCE_SYSTEM: return true;
    case RESOURCE_ORGANISATION:
        return resource->kind != RESOURCE_SYSTEM && same_id(&binding->organisation, &resource->organisation);
    case RESOURCE_PROJECT:
        return (resource->kind == RESOURCE_PROJECT || resource->kind == RESOURCE_REPOSITORY) &&
               same_id(&binding->project, &resource->project);
    case RESOURCE_REPOSITORY:
        return resource->kind == RESOURCE_REPOSITORY && same_id(&binding->project, &resource->project) &&
               pattern_holds(binding->pattern, resource->name);
    }
    return false;
}

bool binding_is_inside(const struct authz_binding *binding, const struct resource *resource)
{
    switch (resource->kind) {
    case RESOURCE_SYSTEM: return true;
    case RESOURCE_ORGANISATION: return same_id(&resource->organisation, &binding->organisation);
    case RESOURCE_PROJECT: return same_id(&resource->project, &binding->project);
    case RESOURCE_REPOSITORY: return false;
    }
    return false;
}

static bool has_role_in(const struct rights_part *part, const struct principal *principal, int64_t now_ms)
{
    size_t count = 0;
    const struct authz_binding *bindings = part == NULL ? NULL : part_bindings_of(part, principal, &count);

    for (size_t i = 0; i < count; i++)
        if (binding_is_live(&bindings[i], now_ms)) return true;
    return false;
}

/* A robot of an organisation has roles only in it. */
static bool has_binding(const struct authz_snapshot *snapshot, const struct principal *principal, int64_t now_ms)
{
    const struct authz_robot *robot = principal->kind == PRINCIPAL_ROBOT ? authz_snapshot_robot(snapshot, &principal->id) : NULL;

    if (robot != NULL && !uuid_is_nil(&robot->organisation))
        return has_role_in(snapshot_part(snapshot, &robot->organisation), principal, now_ms);
    for (size_t i = 0; i < snapshot->part_count; i++)
        if (has_role_in(snapshot->parts[i], principal, now_ms)) return true;
    return false;
}

bool authz_snapshot_has_role(const struct authz_snapshot *snapshot, const struct principal *principal, int64_t now_ms)
{
    return principal->kind == PRINCIPAL_SYSTEM || has_binding(snapshot, principal, now_ms) ||
           scim_entry_of_client(snapshot->rules, principal, now_ms) != NULL;
}

struct uuid authz_snapshot_home(const struct authz_snapshot *snapshot, const struct principal *principal, int64_t now_ms)
{
    struct uuid home = {{0}};
    unsigned found = 0;

    if (principal->kind != PRINCIPAL_EXTERNAL) return principal->organisation;
    for (size_t i = 0; i < snapshot->part_count && found < 2; i++) {
        if (!has_role_in(snapshot->parts[i], principal, now_ms)) continue;
        home = snapshot->parts[i]->organisation;
        found++;
    }
    return found == 1 ? home : (struct uuid){{0}};
}

static bool is_of_content(const struct authz_binding *binding)
{
    return binding->role == ROLE_OWN ? own_role_is_of_content(&binding->own) : role_is_of_content(binding->role);
}

static bool has_content_alone_in(const struct rights_part *part, const struct principal *principal, int64_t now_ms)
{
    size_t count = 0;
    const struct authz_binding *bindings = part_bindings_of(part, principal, &count);

    for (size_t i = 0; i < count; i++)
        if (binding_is_live(&bindings[i], now_ms) && !is_of_content(&bindings[i])) return false;
    return true;
}

bool authz_snapshot_has_content_alone(const struct authz_snapshot *snapshot, const struct principal *principal, int64_t now_ms)
{
    for (size_t i = 0; i < snapshot->part_count; i++)
        if (!has_content_alone_in(snapshot->parts[i], principal, now_ms)) return false;
    return true;
}

bool authz_snapshot_is_live(const struct authz_snapshot *snapshot, const struct principal *principal, int64_t now_ms)
{
    if (principal->kind == PRINCIPAL_ROBOT) {
        const struct authz_robot *robot = authz_snapshot_robot(snapshot, &principal->id);
        return robot != NULL && robot->enabled && now_ms < robot->expires_ms &&
               (principal->replaced_ms == robot->previous_until_ms || now_ms < robot->previous_until_ms);
    }
    if (principal->kind == PRINCIPAL_RUNNER || principal->kind == PRINCIPAL_RUN) return now_ms < principal->expires_ms;
    if (trust_is_rule(principal)) return trust_rule_is_live(snapshot, principal->subject, now_ms);
    return principal->kind == PRINCIPAL_EXTERNAL && authz_snapshot_issuer(snapshot, principal->issuer) != NULL &&
           (principal->is_joining || scim_admits(snapshot, principal->issuer, principal->subject, now_ms));
}

static struct authz_answer refused(enum authz_verdict verdict, const char *rule, const char *message)
{
    return (struct authz_answer){.verdict = verdict, .rule = rule, .message = message};
}

/* For a revocation: checks the role of the binding. */
static const struct authz_refusal *revocation_refusal(const struct authz_snapshot *snapshot, enum role held,
                                                      const struct resource *resource)
{
    static const struct authz_refusal refusal = {"SYS-GRANT",
                                                 "your role may not take this role from others; ask the person that gave it"};
    static const struct authz_refusal unknown = {"SYS-NO-BINDING", "there is no such binding on this scope"};
    struct uuid id;

    if (!uuid_parse(bytes_of_text(resource->detail), &id)) return &unknown;
    const struct rights_part *part = snapshot_part(snapshot, &resource->organisation);
    const struct authz_binding *binding = part == NULL ? NULL : part_binding(part, &id);
    if (binding == NULL) return &unknown;
    /* One that permits nothing is taken away by whoever may give anything there. */
    const bool is_nothing = binding->role == ROLE_OWN && binding->own.version == 0 && role_may_grant(held, ROLE_CONSUMER);
    return is_nothing || binding_may_be_granted(held, binding) ? NULL : &refusal;
}

static const struct authz_refusal *refusal_of(const struct authz_snapshot *snapshot, const struct principal *principal,
                                              enum role held, enum action action, const struct resource *resource, int64_t now_ms)
{
    if (action == ACTION_BINDING_CREATE) return grant_refusal(snapshot, principal, held, resource, now_ms);
    if (action == ACTION_ROBOT_ROTATE) return rotation_refusal(snapshot, principal, resource, now_ms);
    const struct authz_refusal *why = action == ACTION_BINDING_REVOKE ? revocation_refusal(snapshot, held, resource) : NULL;
    return why != NULL ? why : last_officer_refusal(snapshot, principal, action, resource, now_ms);
}

/* The pair to be checked, and the results so far. */
struct search {
    const struct authz_snapshot *snapshot;
    const struct principal *principal;
    enum action action;
    const struct resource *resource;
    int64_t now_ms;
    bool may_know_existence;
    const struct authz_refusal *refusal;
};

static bool may_know_existence(const struct authz_binding *binding)
{
    return binding->role == ROLE_OWN ? own_role_may_know_existence(&binding->own) : role_may_know_existence(binding->role);
}

/* Its row would permit it, so its holder is told what is missing. */
static void note_unsigned(struct search *search, const struct authz_binding *binding)
{
    static const struct authz_refusal refusal = {
        "SYS-OFFICER",
        "your role here is a binding that no document of officers makes count: have one signed (sijil admin officers draft)"};

    if (!binding->is_unsigned || !role_permits(binding->bound_as, search->action)) return;
    if (search->refusal == NULL) search->refusal = &refusal;
    search->may_know_existence = true;
}

/* The binding that allows it, or NULL. */
static const struct authz_binding *search_part(struct search *search, const struct rights_part *part)
{
    size_t count = 0;
    const struct authz_binding *bindings = part_bindings_of(part, search->principal, &count);

    for (size_t i = 0; i < count; i++) {
        const struct authz_binding *binding = &bindings[i];
        const bool covers = binding_covers(binding, search->resource);
        if (!binding_is_live(binding, search->now_ms)) continue;
        search->may_know_existence |= may_know_existence(binding) && (covers || binding_is_inside(binding, search->resource));
        if (covers && !binding_permits(binding, search->action)) note_unsigned(search, binding);
        if (!covers || !binding_permits(binding, search->action)) continue;
        const struct authz_refusal *why =
            refusal_of(search->snapshot, search->principal, binding->role, search->action, search->resource, search->now_ms);
        if (why == NULL) return binding;
        search->refusal = why;
        search->may_know_existence = true; /* a principal with the right to grant here may know of it */
    }
    return NULL;
}

/* Who can give a role that permits it. */
static const char *advice(enum resource_kind kind)
{
    if (kind == RESOURCE_SYSTEM)
        return "no role that you have permits this for the whole registry; name your organisation or project, or ask an administrator of "
               "the registry for a role that does";
    if (kind == RESOURCE_ORGANISATION)
        return "no role that you have here permits this; ask an administrator of the organisation for one that does";
    return "no role that you have here permits this; ask an administrator of the project for one that does";
}

static struct authz_answer authorize_by_bindings(struct search *search)
{
    const struct rights_part *part = NULL;

    search->may_know_existence = search->resource->kind == RESOURCE_SYSTEM;
    for (unsigned at = 0; snapshot_next_part(search->snapshot, &search->resource->organisation, &at, &part);) {
        const struct authz_binding *allowing = search_part(search, part);
        if (allowing != NULL) return (struct authz_answer){.verdict = AUTHZ_ALLOWED, .binding = allowing->id};
    }
    if (search->refusal != NULL) return refused(AUTHZ_NOT_ALLOWED, search->refusal->rule, search->refusal->message);
    return refused(search->may_know_existence ? AUTHZ_NOT_ALLOWED : AUTHZ_INVISIBLE, "SYS-NO-BINDING",
                   advice(search->resource->kind));
}

/* A runner of the registry works for all organisations, any other one for its own. Everything else does not exist for it. */
static struct authz_answer authorize_runner(const struct principal *principal, enum action action,
                                            const struct resource *resource)
{
    const bool is_inside = uuid_is_nil(&principal->organisation) || same_id(&principal->organisation, &resource->organisation);

    if (!is_inside) return refused(AUTHZ_INVISIBLE, "SYS-NO-BINDING", "the runner was not enrolled for this organisation");
    if (action_is_for_runners(action)) return (struct authz_answer){.verdict = AUTHZ_ALLOWED};
    return refused(AUTHZ_INVISIBLE, "SYS-NO-BINDING", "a runner has no roles");
}

/* A signed document names the robot that provisions: no role does. */
static struct authz_answer authorize_provisioner(const struct authz_snapshot *snapshot, const struct principal *principal,
                                                 int64_t now_ms)
{
    if (scim_entry_of_client(snapshot->rules, principal, now_ms) != NULL) return (struct authz_answer){.verdict = AUTHZ_ALLOWED};
    return refused(AUTHZ_NOT_ALLOWED, "SYS-SCIM",
                   "no document of a SCIM service that is in force names this credential as its client");
}

struct authz_answer authz_snapshot_authorize(const struct authz_snapshot *snapshot, const struct principal *principal,
                                             enum action action, const struct resource *resource, int64_t now_ms)
{
    if (!authz_snapshot_is_live(snapshot, principal, now_ms))
        return refused(AUTHZ_NOT_LIVE, "SYS-NOT-LIVE", "the credential is unknown, disabled or expired");
    if (principal->kind == PRINCIPAL_RUN) return run_authorize(principal, action, resource);
    if (!principal_covers(principal, action, resource))
        return refused(AUTHZ_OUT_OF_SCOPE, "SYS-SCOPE",
                       "the token was made for other things; get one with the scope that the challenge names");
    if (principal->kind == PRINCIPAL_RUNNER) return authorize_runner(principal, action, resource);
    if (action_needs_no_role(action)) return (struct authz_answer){.verdict = AUTHZ_ALLOWED};
    if (action_is_for_provisioners(action)) return authorize_provisioner(snapshot, principal, now_ms);
    struct search search = {snapshot, principal, action, resource, now_ms, false, NULL};
    return authorize_by_bindings(&search);
}

static void add_access(const struct rights_part *part, const struct principal *principal, const struct resource *repository,
                       int64_t now_ms, struct principal_access *access)
{
    size_t count = 0;
    const struct authz_binding *bindings = part_bindings_of(part, principal, &count);

    for (size_t i = 0; i < count; i++) {
        if (!binding_is_live(&bindings[i], now_ms) || !binding_covers(&bindings[i], repository)) continue;
        access->pull = access->pull || binding_permits(&bindings[i], ACTION_BLOB_READ);
        access->push = access->push || binding_permits(&bindings[i], ACTION_MANIFEST_PUSH);
        access->remove = access->remove || binding_permits(&bindings[i], ACTION_MANIFEST_DELETE);
    }
}

void authz_snapshot_access(const struct authz_snapshot *snapshot, const struct principal *principal,
                           const struct resource *repository, int64_t now_ms, struct principal_access *access_out)
{
    struct principal_access access = {.repository = repository->repository};
    const struct rights_part *part = NULL;
    const bool is_live = authz_snapshot_is_live(snapshot, principal, now_ms);

    assert(repository->kind == RESOURCE_REPOSITORY);
    (void)snprintf(access.name, sizeof access.name, "%s", repository->name);
    for (unsigned at = 0; is_live && snapshot_next_part(snapshot, &repository->organisation, &at, &part);)
        add_access(part, principal, repository, now_ms, &access);
    *access_out = access;
}

/* The loop does not end early, so the time does not tell whether the binding exists. */
bool authz_snapshot_scope(const struct authz_snapshot *snapshot, const struct uuid *binding, struct resource *scope_out)
{
    const struct authz_binding *found = NULL;

    for (size_t i = 0; i < snapshot->part_count; i++) {
        const struct authz_binding *here = part_binding(snapshot->parts[i], binding);
        if (here != NULL) found = here;
    }
    if (found == NULL) return false;
    *scope_out = (struct resource){.kind = found->scope, .organisation = found->organisation, .project = found->project};
    (void)snprintf(scope_out->name, sizeof scope_out->name, "%s", found->pattern);
    return true;
}

const struct uuid *authz_snapshot_organisation(const struct authz_snapshot *snapshot, size_t number)
{
    return number < snapshot->part_count ? &snapshot->parts[number]->organisation : NULL;
}

size_t authz_snapshot_held(const struct authz_snapshot *snapshot, const struct uuid *organisation,
                           const struct principal *principal, int64_t now_ms, const struct authz_binding *bindings_out[])
{
    const struct rights_part *part = snapshot_part(snapshot, organisation);
    size_t count = 0, found = 0;

    if (part == NULL || !authz_snapshot_is_live(snapshot, principal, now_ms)) return 0;
    const struct authz_binding *bindings = part_bindings_of(part, principal, &count);
    for (size_t i = 0; i < count && found < BINDINGS_PER_PRINCIPAL_MAX; i++)
        if (binding_is_live(&bindings[i], now_ms)) bindings_out[found++] = &bindings[i];
    return found;
}

size_t authz_snapshot_permitting(const struct authz_snapshot *snapshot, const struct uuid *organisation,
                                 const struct principal *principal, enum action action, int64_t now_ms,
                                 const struct authz_binding *bindings_out[])
{
    const struct rights_part *part = snapshot_part(snapshot, organisation);
    size_t count = 0, found = 0;

    if (part == NULL || !authz_snapshot_is_live(snapshot, principal, now_ms)) return 0;
    const struct authz_binding *bindings = part_bindings_of(part, principal, &count);
    for (size_t i = 0; i < count && found < BINDINGS_PER_PRINCIPAL_MAX; i++)
        if (binding_is_live(&bindings[i], now_ms) && binding_permits(&bindings[i], action)) bindings_out[found++] = &bindings[i];
    return found;
}

static size_t add_covering(const struct rights_part *part, const struct principal *principal, const struct resource *resource,
                           int64_t now_ms, const struct authz_binding *bindings_out[])
{
    size_t count = 0, found = 0;
    const struct authz_binding *bindings = part_bindings_of(part, principal, &count);

    for (size_t i = 0; i < count && found < BINDINGS_PER_PRINCIPAL_MAX; i++)
        if (binding_is_live(&bindings[i], now_ms) && binding_covers(&bindings[i], resource)) bindings_out[found++] = &bindings[i];
    return found;
}

size_t authz_snapshot_covering(const struct authz_snapshot *snapshot, const struct principal *principal,
                               const struct resource *resource, int64_t now_ms,
                               const struct authz_binding *bindings_out[BINDINGS_COVERING_MAX])
{
    const struct rights_part *part = NULL;
    size_t found = 0;

    for (unsigned at = 0; snapshot_next_part(snapshot, &resource->organisation, &at, &part);)
        found += add_covering(part, principal, resource, now_ms, bindings_out + found);
    return found;
}
