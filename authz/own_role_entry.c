#include "authz/own_role_entry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "authz/trust_rules_priv.h"
#include "base/clock.h"
#include "base/memory.h"

/* ---- documents ---- */

static struct result no_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory for roles");
}

static struct result reserve(struct trust_rules *rules, struct error *err)
{
    if (rules->own_roles == NULL) rules->own_roles = memory_zeroed(OWN_ROLES_MAX, sizeof *rules->own_roles);
    return rules->own_roles == NULL ? no_memory(err) : SUCCESS;
}

/* Those that have expired go once their places are needed: the gateways let as many be in force as there are places. */
static bool has_room(struct trust_rules *rules)
{
    const int64_t now_ms = clock_wall_ms();
    size_t kept = 0;

    if (rules->own_role_count < OWN_ROLES_MAX) return true;
    for (size_t i = 0; i < rules->own_role_count; i++) {
        if (now_ms < rules->own_roles[i].use.expires_ms) rules->own_roles[kept++] = rules->own_roles[i];
        else json_decref(rules->own_roles[i].pinned.json);
    }
    rules->own_role_count = kept;
    return kept < OWN_ROLES_MAX;
}

/* An action that this version does not know permits nothing. */
static void read_actions(const struct own_role *role, struct own_role_use *use)
{
    for (size_t i = 0; i < role->action_count; i++)
        for (enum action action = 0; action < ACTION_COUNT; action++)
            if (strcmp(action_name(action), role->actions[i]) == 0) use->actions[action / 64] |= UINT64_C(1) << (action % 64);
}

/* sijil-keyd has pinned it, so it was sound. If this version demands more, it does not count. */
struct result own_role_entries_add(void *context, const struct pinned_document *pinned, struct error *err)
{
    const struct document *document = pinned->document;
    struct trust_rules *rules = context;
    struct error refused = {0};
    struct own_role role;

    if (document->is_withdrawn || !has_room(rules)) return SUCCESS;
    if (!own_role_read(document, &role, &refused).ok) return refused.kind == ERROR_NO_MEMORY ? no_memory(err) : SUCCESS;
    TRY(reserve(rules, err));
    struct own_role_entry *entry = &rules->own_roles[rules->own_role_count++];
    (void)snprintf(entry->name, sizeof entry->name, "%.63s", document->name);
    (void)snprintf(entry->organisation, sizeof entry->organisation, "%s", role.organisation == NULL ? "" : role.organisation);
    entry->pinned = pinned_entry_of(pinned);
    entry->use = (struct own_role_use){
        .version = document->version, .effective_ms = document->effective_ms, .expires_ms = document->expires_ms};
    memcpy(entry->use.name, entry->name, sizeof entry->use.name);
    read_actions(&role, &entry->use);
    entry_place_init(&entry->place, false);
    return SUCCESS;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct own_role_entry *)a)->name, ((const struct own_role_entry *)b)->name);
}

void own_role_entries_sort(struct trust_rules *rules)
{
    if (rules->own_role_count > 0) qsort(rules->own_roles, rules->own_role_count, sizeof *rules->own_roles, compare);
}

void own_role_entries_free(struct trust_rules *rules)
{
    for (size_t i = 0; i < rules->own_role_count; i++) json_decref(rules->own_roles[i].pinned.json);
    free(rules->own_roles);
}

size_t own_role_entries_count(const struct trust_rules *rules)
{
    return rules == NULL ? 0 : rules->own_role_count;
}

const struct own_role_entry *own_role_entries_at(const struct trust_rules *rules, size_t number)
{
    return &rules->own_roles[number];
}

/* ---- a role of a binding ---- */

static bool counts_in(const struct own_role_entry *entry, const struct uuid *organisation)
{
    if (uuid_is_nil(organisation)) return false; /* no such role is of the whole registry */
    return entry->organisation[0] == '\0' || entry_place_is(&entry->place, organisation);
}

void own_role_resolve(const struct trust_rules *rules, const struct uuid *organisation, struct own_role_use *use)
{
    size_t low = 0, high = own_role_entries_count(rules);

    use->version = 0;
    memset(use->actions, 0, sizeof use->actions);
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct own_role_entry *entry = &rules->own_roles[middle];
        const int order = strcmp(use->name, entry->name);
        if (order == 0 && counts_in(entry, organisation)) *use = entry->use;
        if (order == 0) return;
        if (order < 0) high = middle;
        else low = middle + 1;
    }
}

bool own_role_is_in_force(const struct own_role_use *use, int64_t now_ms)
{
    return use->version != 0 && use->effective_ms <= now_ms && now_ms < use->expires_ms;
}

bool own_role_permits(const struct own_role_use *use, enum action action)
{
    return (use->actions[action / 64] >> (action % 64) & 1) != 0;
}

/* Whether one of the built-in roles that `takes` names permits the action. */
static bool is_permitted(enum action action, bool (*takes)(enum role held, enum role role), enum role held)
{
    for (enum role role = 0; role < ROLE_COUNT; role++)
        if (takes(held, role) && role_permits(role, action)) return true;
    return false;
}

static bool all_are_permitted(const struct own_role_use *use, bool (*takes)(enum role held, enum role role), enum role held)
{
    for (enum action action = 0; action < ACTION_COUNT; action++)
        if (own_role_permits(use, action) && !is_permitted(action, takes, held)) return false;
    return true;
}

static bool is_of_content(enum role held, enum role role)
{
    (void)held;
    return role_is_of_content(role);
}

bool own_role_is_of_content(const struct own_role_use *use)
{
    return use->version != 0 && all_are_permitted(use, is_of_content, ROLE_COUNT);
}

bool own_role_may_know_existence(const struct own_role_use *use)
{
    return own_role_permits(use, ACTION_PROJECT_READ) || own_role_permits(use, ACTION_TAG_LIST) ||
           own_role_permits(use, ACTION_MANIFEST_READ);
}

bool own_role_may_be_granted(enum role held, const struct own_role_use *use)
{
    if (use->version == 0) return role_may_grant(held, ROLE_PROJECT_ADMIN) && role_may_grant(held, ROLE_AUDITOR);
    return role_may_grant(held, ROLE_CONSUMER) && all_are_permitted(use, role_may_grant, held);
}
