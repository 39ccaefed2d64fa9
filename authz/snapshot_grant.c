#include <stdio.h>
#include <string.h>

#include "authz/snapshot_priv.h"

static const struct authz_refusal malformed = {"SYS-GRANT", "a grant names a role and who gets it"};
static const struct authz_refusal misplaced = {"SYS-GRANT", "this role can't be given on a scope of this kind"};
static const struct authz_refusal not_yours = {"SYS-GRANT", "your role may not give this role to others"};
static const struct authz_refusal yourself = {"SYS-SELF-GRANT", "nobody gives a role to himself; ask another administrator"};
static const struct authz_refusal both_officers = {
    "SYS-BOTH-OFFICERS", "you appointed a security officer here already; the second one is for another to appoint"};

void authz_grant_detail(enum role role, const struct authz_binding *grantee, char detail_out[RESOURCE_DETAIL_MAX + 1])
{
    char id[UUID_TEXT_SIZE];

    uuid_format(&grantee->robot, id);
    (void)snprintf(detail_out, RESOURCE_DETAIL_MAX + 1, "%s %s%s", role_name(role),
                   grantee->kind == PRINCIPAL_ROBOT ? "robot:" : "external", grantee->kind == PRINCIPAL_ROBOT ? id : "");
}

/* Splits "role grantee". */
static bool read_detail(const char *detail, enum role *role_out, const char **grantee_out)
{
    const char *blank = strchr(detail, ' ');

    if (blank == NULL || blank[1] == '\0') return false;
    if (!role_find((struct bytes){(const uint8_t *)detail, (size_t)(blank - detail)}, role_out)) return false;
    *grantee_out = blank + 1;
    return true;
}

/* Do the scopes have a resource in common? One of them then holds the other. */
static bool scopes_meet(const struct authz_binding *officer, const struct resource *scope)
{
    return binding_covers(officer, scope) || binding_is_inside(officer, scope);
}

static bool appointed_in(const struct rights_part *part, const char *granter, const struct resource *scope, int64_t now_ms)
{
    for (size_t i = 0; i < part->binding_count; i++) {
        const struct authz_binding *binding = &part->bindings[i];
        if (binding->role == ROLE_SECURITY_OFFICER && binding_is_live(binding, now_ms) &&
            strcmp(binding->granted_by, granter) == 0 && scopes_meet(binding, scope))
            return true;
    }
    return false;
}

/* The registry's scope meets all others. */
static bool appointed_one_already(const struct authz_snapshot *snapshot, const char *granter,
                                  const struct resource *scope, int64_t now_ms)
{
    const struct rights_part *part = NULL;

    if (scope->kind != RESOURCE_SYSTEM) {
        for (unsigned at = 0; snapshot_next_part(snapshot, &scope->organisation, &at, &part);)
            if (appointed_in(part, granter, scope, now_ms)) return true;
        return false;
    }
    for (size_t i = 0; i < snapshot->part_count; i++)
        if (appointed_in(snapshot->parts[i], granter, scope, now_ms)) return true;
    return false;
}

/* May the principal give this role on the scope that it is given on? */
static bool may_give(const struct authz_snapshot *snapshot, const struct principal *principal, const struct authz_binding *given,
                     int64_t now_ms)
{
    struct resource scope = {.kind = given->scope, .organisation = given->organisation, .project = given->project};
    const struct rights_part *part = NULL;

    (void)snprintf(scope.name, sizeof scope.name, "%s", given->pattern);
    for (unsigned at = 0; snapshot_next_part(snapshot, &scope.organisation, &at, &part);) {
        size_t count = 0;
        const struct authz_binding *own = part_bindings_of(part, principal, &count);
        for (size_t i = 0; i < count; i++)
            if (binding_is_live(&own[i], now_ms) && role_permits(own[i].role, ACTION_BINDING_CREATE) &&
                role_may_grant(own[i].role, given->role) && binding_covers(&own[i], &scope))
                return true;
    }
    return false;
}

static const struct authz_refusal *rotation_refusal_in(const struct authz_snapshot *snapshot, const struct rights_part *part,
                                                       const struct principal *principal, const struct principal *robot,
                                                       int64_t now_ms)
{
    static const struct authz_refusal roles = {"SYS-GRANT", "you may not give each role that this robot has, so its secret is not yours to see"};
    static const struct authz_refusal officer = {"SYS-BOTH-OFFICERS", "who did not appoint a security officer may not have its secret: revoke it"};
    char granter[PRINCIPAL_KEY_SIZE];
    size_t count = 0;
    const struct authz_binding *given = part_bindings_of(part, robot, &count);

    principal_key(principal, granter);
    for (size_t i = 0; i < count; i++) {
        if (!binding_is_live(&given[i], now_ms)) continue;
        if (!may_give(snapshot, principal, &given[i], now_ms)) return &roles;
        if (given[i].role == ROLE_SECURITY_OFFICER && strcmp(given[i].granted_by, granter) != 0) return &officer;
    }
    return NULL;
}

const struct authz_refusal *rotation_refusal(const struct authz_snapshot *snapshot, const struct principal *principal,
                                             const struct resource *resource, int64_t now_ms)
{
    static const struct authz_refusal unknown = {"SYS-NO-BINDING", "there is no such robot in this organisation"};
    struct principal robot = {.kind = PRINCIPAL_ROBOT};

    if (!uuid_parse(bytes_of_text(resource->detail), &robot.id)) return &unknown;
    const struct authz_robot *found = authz_snapshot_robot(snapshot, &robot.id);
    if (found == NULL || !uuid_equal(&found->organisation, &resource->organisation)) return &unknown;
    if (principal->kind == PRINCIPAL_ROBOT && uuid_equal(&principal->id, &robot.id)) return &yourself;
    for (size_t i = 0; i < snapshot->part_count; i++) {
        const struct authz_refusal *why = rotation_refusal_in(snapshot, snapshot->parts[i], principal, &robot, now_ms);
        if (why != NULL) return why;
    }
    return NULL;
}

const struct authz_refusal *grant_refusal(const struct authz_snapshot *snapshot, const struct principal *principal,
                                          enum role held, const struct resource *resource, int64_t now_ms)
{
    char granter[PRINCIPAL_KEY_SIZE];
    const char *grantee = NULL;
    enum role role = 0;

    if (!read_detail(resource->detail, &role, &grantee)) return &malformed;
    if (!role_fits(role, resource->kind)) return &misplaced;
    if (!role_may_grant(held, role)) return &not_yours;
    principal_key(principal, granter);
    if (strcmp(grantee, granter) == 0) return &yourself;
    if (role == ROLE_SECURITY_OFFICER && appointed_one_already(snapshot, granter, resource, now_ms))
        return &both_officers;
    return NULL;
}
