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

/* All that permit reading, of all organisations: how many; they are added where there is room. */
static size_t gather_scopes(const struct snapshot *snapshot, const struct principal *principal, int64_t now_ms,
                            struct readable_scopes *scopes)
{
    const struct authz_binding *bindings[BINDINGS_PER_PRINCIPAL_MAX];
    const struct uuid *organisation = NULL;
    size_t all = 0;

    for (size_t number = 0; (organisation = authz_snapshot_organisation(snapshot->authz, number)) != NULL; number++) {
        const size_t count =
            authz_snapshot_permitting(snapshot->authz, organisation, principal, ACTION_PROJECT_READ, now_ms, bindings);
        for (size_t i = 0; scopes != NULL && i < count; i++) add_scope(scopes, bindings[i]);
        all += count;
    }
    return all;
}

struct result decider_readable_scopes(struct decider *decider, const struct principal *principal, int64_t now_ms,
                                      struct readable_scopes **scopes_out, struct error *err)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    OWNED(readable_scopes) *scopes = memory_zeroed(1, sizeof *scopes);
    const size_t most = decider_is_stale(decider, snapshot) ? 0 : gather_scopes(snapshot, principal, now_ms, NULL);

    if (scopes == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    scopes->organisations = memory_zeroed(most + 1, sizeof *scopes->organisations);
    scopes->projects = memory_zeroed(most + 1, sizeof *scopes->projects);
    if (scopes->organisations == NULL || scopes->projects == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    if (most > 0) (void)gather_scopes(snapshot, principal, now_ms, scopes);
    *scopes_out = GIVE(scopes);
    return SUCCESS;
}

void readable_scopes_free(struct readable_scopes *scopes)
{
    if (scopes == NULL) return;
    free(scopes->organisations);
    free(scopes->projects);
    free(scopes);
}
