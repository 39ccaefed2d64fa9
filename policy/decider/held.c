/* Lists the roles of a principal. */
#include <stdio.h>

#include "authz/officer_entry.h"
#include "base/clock.h"
#include "base/memory.h"
#include "policy/decider/decider_priv.h"

const char *held_scope(const struct tenancy *tenancy, const struct authz_binding *binding)
{
    const char *name = NULL;

    if (binding->scope == RESOURCE_REPOSITORY) return binding->pattern;
    if (binding->scope == RESOURCE_PROJECT) name = tenancy_project_name(tenancy, &binding->project);
    if (binding->scope == RESOURCE_ORGANISATION) name = tenancy_organisation_name(tenancy, &binding->organisation);
    return name == NULL ? "" : name;
}

static void add(const struct snapshot *snapshot, const struct authz_binding *binding, struct held_roles *roles)
{
    const struct officer_entry *officer = officer_entry_of(authz_snapshot_rules(snapshot->authz), binding, clock_wall_ms());

    if (roles->count == HELD_ROLES_MAX) {
        roles->has_more = true;
        return;
    }
    struct held_role *role = &roles->roles[roles->count++];
    (void)snprintf(role->role, sizeof role->role, "%s", binding_role_name(binding));
    role->version = binding->own.version;
    role->bound_as = binding->is_unsigned ? role_name(binding->bound_as) : NULL;
    (void)snprintf(role->document, sizeof role->document, "%s", officer == NULL ? "" : officer->name);
    role->expires_ms = binding->expires_ms;
    role->binding = binding->id;
    (void)snprintf(role->granted_by, sizeof role->granted_by, "%s", binding->granted_by);
    (void)snprintf(role->scope, sizeof role->scope, "%s", held_scope(&snapshot->tenancy, binding));
}

bool decider_demands_officers(struct decider *decider)
{
    OWNED(snapshot) *snapshot = decider_take(decider);

    return officers_are_demanded(authz_snapshot_rules(snapshot->authz));
}

struct result decider_roles(struct decider *decider, const struct principal *principal, int64_t now_ms,
                            struct held_roles **roles_out, struct error *err)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct authz_binding *bindings[BINDINGS_PER_PRINCIPAL_MAX];
    const struct uuid *organisation = NULL;
    struct held_roles *roles = memory_zeroed(1, sizeof *roles + HELD_ROLES_MAX * sizeof roles->roles[0]);

    if (roles == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for roles");
    for (size_t number = 0; (organisation = authz_snapshot_organisation(snapshot->authz, number)) != NULL; number++) {
        const size_t count = authz_snapshot_held(snapshot->authz, organisation, principal, now_ms, bindings);
        for (size_t i = 0; i < count; i++) add(snapshot, bindings[i], roles);
    }
    *roles_out = roles;
    return SUCCESS;
}
