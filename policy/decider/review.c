#include "policy/decider/review.h"

#include <stdio.h>
#include <string.h>

#include "authz/break_glass_entry.h"
#include "authz/group_entry.h"
#include "authz/officer_entry.h"
#include "authz/scim_entry.h"
#include "authz/trust_login.h"
#include "base/clock.h"
#include "base/memory.h"
#include "policy/decider/decider_priv.h"

static void take_principal(const struct snapshot *snapshot, const struct authz_binding *binding, struct reviewed_role *role)
{
    struct principal *principal = &role->principal;
    const struct authz_robot *robot =
        binding->kind == PRINCIPAL_ROBOT ? authz_snapshot_robot(snapshot->authz, &binding->robot) : NULL;

    principal->kind = binding->kind;
    principal->id = binding->robot;
    (void)snprintf(principal->issuer, sizeof principal->issuer, "%s", binding->issuer);
    (void)snprintf(principal->subject, sizeof principal->subject, "%s", robot == NULL ? binding->subject : robot->name);
    const struct persons_scope where = {snapshot->authz, &binding->organisation, clock_wall_ms()};
    const struct persons persons = persons_of(&where, principal);
    if (persons_are_one(&persons)) role->person = persons.each[0];
}

static void take_scope(const struct snapshot *snapshot, const struct authz_binding *binding, struct reviewed_role *role)
{
    role->scope = (struct resource){.kind = binding->scope, .organisation = binding->organisation, .project = binding->project};
    (void)snprintf(role->scope.name, sizeof role->scope.name, "%s", held_scope(&snapshot->tenancy, binding));
}

static void take_rule(const struct snapshot *snapshot, struct reviewed_role *role)
{
    const struct trust_entry *entry = trust_rules_find(authz_snapshot_rules(snapshot->authz), role->principal.subject);

    role->origin = "rule";
    (void)snprintf(role->document, sizeof role->document, "%s", role->principal.subject);
    if (entry != NULL) role->granted_ms = entry->pinned.effective_ms;
}

static void take_group(const struct snapshot *snapshot, const char *name, struct reviewed_role *role)
{
    const struct trust_rules *rules = authz_snapshot_rules(snapshot->authz);

    role->origin = "group";
    (void)snprintf(role->document, sizeof role->document, "%s", name);
    for (size_t i = 0; i < group_entries_count(rules); i++)
        if (strcmp(group_entries_at(rules, i)->name, name) == 0)
            role->granted_ms = group_entries_at(rules, i)->pinned.effective_ms;
}

static void take_glass(const struct snapshot *snapshot, const char *name, struct reviewed_role *role)
{
    const struct trust_rules *rules = authz_snapshot_rules(snapshot->authz);

    role->origin = "break-glass";
    (void)snprintf(role->document, sizeof role->document, "%s", name);
    for (size_t i = 0; i < glass_entries_count(rules); i++)
        if (strcmp(glass_entries_at(rules, i)->name, name) == 0)
            role->granted_ms = glass_entries_at(rules, i)->pinned.effective_ms;
}

static void take_giver(const struct snapshot *snapshot, const struct authz_binding *binding, struct reviewed_role *role)
{
    const struct officer_entry *officer = officer_entry_of(authz_snapshot_rules(snapshot->authz), binding, clock_wall_ms());

    (void)snprintf(role->granted_by, sizeof role->granted_by, "%s", binding->granted_by);
    if (officer != NULL) (void)snprintf(role->document, sizeof role->document, "%s", officer->name);
    if (binding->is_unsigned) role->bound_as = role_name(binding->bound_as);
}

static void take_origin(const struct snapshot *snapshot, const struct authz_binding *binding, struct reviewed_role *role)
{
    const char *group = group_giver(binding->granted_by), *glass = glass_giver(binding->granted_by);

    role->origin = "binding";
    if (trust_is_rule(&role->principal)) take_rule(snapshot, role);
    else if (group != NULL) take_group(snapshot, group, role);
    else if (glass != NULL) take_glass(snapshot, glass, role);
    else take_giver(snapshot, binding, role);
}

static bool is_deactivated(const struct snapshot *snapshot, const struct principal *principal)
{
    return principal->kind == PRINCIPAL_EXTERNAL && !trust_is_rule(principal) &&
           !scim_admits(snapshot->authz, principal->issuer, principal->subject, clock_wall_ms());
}

static void take(const struct snapshot *snapshot, const struct authz_binding *binding, struct reviewed_role *role)
{
    role->id = binding->id;
    role->binding = *binding;
    role->expires_ms = binding->expires_ms;
    take_principal(snapshot, binding, role);
    take_scope(snapshot, binding, role);
    take_origin(snapshot, binding, role);
    role->is_deactivated = is_deactivated(snapshot, &role->principal);
}

/* One binding more than the page has is asked for: whether there is another page. */
static struct result fill(const struct resource *scope, const struct snapshot *snapshot, const struct uuid *after, size_t limit,
                          struct reviewed_page *page, struct error *err)
{
    const struct authz_binding **bindings = memory_zeroed(limit + 1, sizeof *bindings);
    struct reviewed_role *roles = memory_zeroed(limit, sizeof *roles);

    if (bindings == NULL || roles == NULL) {
        free(bindings);
        free(roles);
        return failure(err, ERROR_NO_MEMORY, "no memory for a review");
    }
    const size_t found = authz_snapshot_page(snapshot->authz, scope, after, clock_wall_ms(), bindings, limit + 1);
    *page = (struct reviewed_page){.count = found < limit ? found : limit,
                                   .has_more = found > limit,
                                   .demands_officers = officers_are_demanded(authz_snapshot_rules(snapshot->authz)),
                                   .roles = roles};
    for (size_t i = 0; i < page->count; i++) take(snapshot, bindings[i], &roles[i]);
    free(bindings);
    return SUCCESS;
}

struct result decider_review(const struct permit *permit, struct decider *decider, const struct uuid *after, size_t limit,
                             struct reviewed_page *page_out, struct error *err)
{
    const struct resource *scope = permit_resource(permit, ACTION_ACCESS_REVIEW);
    OWNED(snapshot) *snapshot = decider_take(decider);

    if (decider_is_stale(decider, snapshot))
        return failure(err, ERROR_UNAVAILABLE, "this gateway can't tell which rights are in force");
    return fill(scope, snapshot, after, limit, page_out, err);
}
