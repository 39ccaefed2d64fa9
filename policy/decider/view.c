/* Checks in memory what a caller may know of, before anything is looked up for the caller. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "policy/decider/decider_priv.h"

enum authz_verdict decider_rights(struct decider *decider, const struct principal *principal, const struct action_pair *pair,
                                  int64_t now_ms)
{
    OWNED(snapshot) *snapshot = decider_take(decider);

    if (principal->kind == PRINCIPAL_NONE || decider_is_stale(decider, snapshot)) return AUTHZ_NOT_LIVE;
    return authz_snapshot_authorize(snapshot->authz, principal, pair->action, &pair->resource, now_ms).verdict;
}

static bool holds(const struct snapshot *snapshot, const struct principal *principal, const struct held_right *right,
                  int64_t now_ms)
{
    struct resource resource = {.kind = RESOURCE_SYSTEM};

    tenancy_resolve(&snapshot->tenancy, right->name, &resource);
    return authz_snapshot_authorize(snapshot->authz, principal, right->action, &resource, now_ms).verdict == AUTHZ_ALLOWED;
}

static bool is_outdated(const struct snapshot *snapshot, const struct principal *principal, int64_t asked_ms)
{
    const struct authz_robot *robot =
        principal->kind == PRINCIPAL_ROBOT ? authz_snapshot_robot(snapshot->authz, &principal->id) : NULL;

    return robot != NULL && asked_ms != 0 && asked_ms < robot->asked_since_ms;
}

struct result decider_holds(struct decider *decider, const struct rights_query *query, struct rights_answer *answer_out,
                            struct error *err)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    struct rights_answer answer = {.has_all = false};
    struct principal principal;

    if (decider_is_stale(decider, snapshot))
        return failure(err, ERROR_UNAVAILABLE, "this gateway can't tell which rights are in force");
    answer.is_somebody = authz_snapshot_principal(snapshot->authz, query->principal, query->organisation, &principal);
    answer.is_outdated = answer.is_somebody && is_outdated(snapshot, &principal, query->asked_ms);
    while (answer.is_somebody && answer.lacks < query->count &&
           holds(snapshot, &principal, &query->rights[answer.lacks], query->now_ms))
        answer.lacks++;
    answer.has_all = answer.is_somebody && answer.lacks == query->count;
    *answer_out = answer;
    return SUCCESS;
}

bool decider_may_be_machine(struct decider *decider, const char *key, const struct uuid *organisation)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct trust_rules *rules = authz_snapshot_rules(snapshot->authz);
    struct principal principal;

    if (rules == NULL || !authz_snapshot_principal(snapshot->authz, key, organisation, &principal)) return false;
    for (size_t i = 0; principal.kind == PRINCIPAL_EXTERNAL && i < trust_rules_count(rules); i++)
        if (strcmp(trust_rules_at(rules, i)->rule.issuer, principal.issuer) == 0) return true;
    return false;
}

bool decider_find_robot(struct decider *decider, const struct uuid *id, struct resource *resource_out)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct authz_robot *robot = authz_snapshot_robot(snapshot->authz, id);

    if (robot == NULL) return false;
    *resource_out = (struct resource){.kind = RESOURCE_ORGANISATION, .organisation = robot->organisation};
    return true;
}

bool decider_robot(struct decider *decider, const char *name, struct uuid *id_out, struct uuid *organisation_out)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    struct uuid id;
    const struct authz_robot *robot = uuid_parse(bytes_of_text(name), &id)
                                          ? authz_snapshot_robot(snapshot->authz, &id)
                                          : authz_snapshot_robot_named(snapshot->authz, bytes_of_text(name));

    if (robot == NULL) return false;
    *id_out = robot->id;
    *organisation_out = robot->organisation;
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

static void add_namespace(struct readable_namespaces *namespaces, const struct authz_binding *binding)
{
    if (binding->scope == RESOURCE_SYSTEM) namespaces->all = true;
    if (binding->scope == RESOURCE_ORGANISATION)
        namespaces->organisations[namespaces->organisation_count++] = binding->organisation;
    if (binding->scope == RESOURCE_PROJECT) namespaces->projects[namespaces->project_count++] = binding->project;
}

/* Counts the bindings of all organisations that permit reading, and adds their scopes unless `namespaces` is NULL. */
static size_t gather_namespaces(const struct snapshot *snapshot, const struct principal *principal, int64_t now_ms,
                                struct readable_namespaces *namespaces)
{
    const struct authz_binding *bindings[BINDINGS_PER_PRINCIPAL_MAX];
    const struct uuid *organisation = NULL;
    size_t all = 0;

    for (size_t number = 0; (organisation = authz_snapshot_organisation(snapshot->authz, number)) != NULL; number++) {
        const size_t count =
            authz_snapshot_permitting(snapshot->authz, organisation, principal, ACTION_PROJECT_READ, now_ms, bindings);
        for (size_t i = 0; namespaces != NULL && i < count; i++) add_namespace(namespaces, bindings[i]);
        all += count;
    }
    return all;
}

struct result decider_readable_namespaces(struct decider *decider, const struct principal *principal, int64_t now_ms,
                                          struct readable_namespaces **namespaces_out, struct error *err)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    OWNED(readable_namespaces) *namespaces = memory_zeroed(1, sizeof *namespaces);
    const size_t most = decider_is_stale(decider, snapshot) ? 0 : gather_namespaces(snapshot, principal, now_ms, NULL);

    if (namespaces == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    namespaces->organisations = memory_zeroed(most + 1, sizeof *namespaces->organisations);
    namespaces->projects = memory_zeroed(most + 1, sizeof *namespaces->projects);
    if (namespaces->organisations == NULL || namespaces->projects == NULL)
        return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    if (most > 0) (void)gather_namespaces(snapshot, principal, now_ms, namespaces);
    *namespaces_out = GIVE(namespaces);
    return SUCCESS;
}

void readable_namespaces_free(struct readable_namespaces *namespaces)
{
    if (namespaces == NULL) return;
    free(namespaces->organisations);
    free(namespaces->projects);
    free(namespaces);
}
