#include "gateway/pipeline/resolve.h"

#include "authz/role.h"
#include "base/clock.h"
#include "gateway/pipeline/gateway.h"
#include "policy/decider/decider.h"
#include "registry/registry.h"

void resolve_name(const struct request *request, struct resource *resource)
{
    const enum resource_kind kind = resource->kind;

    if (request->principal->kind == PRINCIPAL_NONE) return;
    decider_resolve(request->gateway->decider, resource->name, resource);
    resource->kind = kind;
}

bool resolve_allows(const struct request *request, const struct action_pair *pair)
{
    return decider_rights(request->gateway->decider, request->principal, pair, clock_wall_ms()) == AUTHZ_ALLOWED;
}

/* A grant on a repository names a repository or a pattern. The repository need not exist yet. */
static bool is_for_repository(const struct action_pair *pair)
{
    const enum access_right right = action_right(pair->action);
    const bool is_content = right == RIGHT_PULL || right == RIGHT_PUSH || right == RIGHT_DELETE;

    const bool is_of_repository = pair->action == ACTION_REPOSITORY_LABEL || pair->action == ACTION_REPOSITORY_DELETE ||
                                  pair->action == ACTION_DELETION_PLAN;

    return pair->resource.kind == RESOURCE_REPOSITORY && (is_content || is_of_repository);
}

struct result resolve_repository(const struct request *request, struct lookup *lookup, struct action_pair *pair,
                                 bool *is_later_out, struct error *err)
{
    struct registry *registry = request->gateway->registry;
    const uint64_t version = decider_names_version(request->gateway->decider);

    *is_later_out = false;
    if (!is_for_repository(pair) || !resolve_allows(request, pair)) return SUCCESS;
    if (lookup != NULL) return registry_resolve(registry, lookup, version, &pair->resource, err);
    *is_later_out = !registry_resolve_cached(registry, version, &pair->resource);
    return SUCCESS;
}

struct result resolve_for_run(const struct request *request, struct lookup *lookup, struct resource *resource, struct error *err)
{
    const uint64_t version = decider_names_version(request->gateway->decider);

    decider_resolve(request->gateway->decider, request->name, resource);
    return registry_resolve(request->gateway->registry, lookup, version, resource, err);
}

struct result resolve_repositories(struct request *request, struct lookup *lookup, bool *is_later_out, struct error *err)
{
    bool is_later = false;

    for (size_t i = 0; i < request->pair_count && !is_later; i++)
        TRY(resolve_repository(request, lookup, &request->pairs[i], &is_later, err));
    *is_later_out = is_later;
    return SUCCESS;
}
