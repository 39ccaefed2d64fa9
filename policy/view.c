/* What a caller may know, said from memory before anything is looked up for it. */
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "policy/decider_priv.h"

enum judgement decider_rights(struct decider *decider, const struct principal *principal, const struct action_pair *pair,
                              int64_t now_ms)
{
    OWNED(snapshot) *snapshot = decider_take(decider);

    if (principal->kind == PRINCIPAL_NONE || decider_is_stale(decider, snapshot)) return JUDGED_NOT_LIVE;
    return authz_snapshot_judge(snapshot->authz, principal, pair->action, &pair->resource, now_ms).verdict;
}

bool decider_find_robot(struct decider *decider, const struct uuid *id, struct resource *resource_out)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct authz_robot *robot = authz_snapshot_robot(snapshot->authz, id);

    if (robot == NULL) return false;
    *resource_out = (struct resource){.kind = RESOURCE_ORGANISATION, .organisation = robot->organisation};
    return true;
}

bool decider_find_binding(struct decider *decider, const struct uuid *id, struct resource *resource_out)
{
    OWNED(snapshot) *snapshot = decider_take(decider);

    return authz_snapshot_scope(snapshot->authz, id, resource_out);
}

void decider_name(struct decider *decider, struct resource *resource)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct tenancy *tenancy = &snapshot->tenancy;
    const char *name = NULL;

    if (resource->kind == RESOURCE_ORGANISATION) name = tenancy_organisation_name(tenancy, &resource->organisation);
    if (resource->kind == RESOURCE_PROJECT) name = tenancy_project_name(tenancy, &resource->project);
    if (name != NULL) (void)snprintf(resource->name, sizeof resource->name, "%s", name);
}

static void add_scope(struct readable_scopes *scopes, const struct authz_binding *binding)
{
    if (binding->scope == RESOURCE_SYSTEM) scopes->all = true;
    if (binding->scope == RESOURCE_ORGANISATION) scopes->organisations[scopes->organisation_count++] = binding->organisation;
    if (binding->scope == RESOURCE_PROJECT) scopes->projects[scopes->project_count++] = binding->project;
}

struct result decider_readable_scopes(struct decider *decider, const struct principal *principal, int64_t now_ms,
                                      struct readable_scopes **scopes_out, struct error *err)
{
    const struct authz_binding *bindings[BINDINGS_PER_PRINCIPAL_MAX];
    OWNED(snapshot) *snapshot = decider_take(decider);
    OWNED(readable_scopes) *scopes = memory_zeroed(1, sizeof *scopes);
    size_t count = 0;

    if (scopes == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    if (!decider_is_stale(decider, snapshot))
        count = authz_snapshot_permitting(snapshot->authz, principal, ACTION_PROJECT_READ, now_ms, bindings);
    for (size_t i = 0; i < count; i++) add_scope(scopes, bindings[i]);
    *scopes_out = GIVE(scopes);
    return SUCCESS;
}

void readable_scopes_free(struct readable_scopes *scopes)
{
    free(scopes);
}
