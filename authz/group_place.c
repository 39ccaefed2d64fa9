#include "authz/group_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "authz/scim_entry.h"
#include "base/clock.h"

const char *group_place_group(const struct group_place *place)
{
    return place->entry->roles.grants[place->grant].group;
}

/* Groups of tokens before those of SCIM. */
static int compare_with(const struct group_place *place, const char *issuer, bool is_provisioned, const char *group)
{
    const int issuers = strcmp(place->entry->roles.issuer, issuer);

    if (place->entry->roles.is_provisioned != is_provisioned) return is_provisioned ? -1 : 1;
    return issuers != 0 ? issuers : strcmp(group_place_group(place), group);
}

static int compare(const void *a, const void *b)
{
    const struct group_place *left = a, *right = b;
    const struct group_roles *roles = &right->entry->roles;
    const int groups = compare_with(left, roles->issuer, roles->is_provisioned, group_place_group(right));
    const int names = groups != 0 ? groups : strcmp(left->entry->name, right->entry->name);

    if (names != 0) return names;
    return left->grant == right->grant ? 0 : left->grant < right->grant ? -1 : 1;
}

bool group_place_end(const struct trust_rules *rules, struct group_place *place)
{
    const struct group_entry *entry = place->entry;
    const struct scim_entry *service =
        entry->roles.is_provisioned ? scim_entry_of_issuer(rules, entry->roles.issuer, clock_wall_ms()) : NULL;

    place->binding.expires_ms = entry->pinned.expires_ms;
    if (!entry->roles.is_provisioned) return true;
    if (service != NULL && service->pinned.expires_ms < place->binding.expires_ms)
        place->binding.expires_ms = service->pinned.expires_ms;
    return service != NULL;
}

void group_places_sort(struct group_place *places, size_t count)
{
    if (count > 0) qsort(places, count, sizeof *places, compare);
}

static size_t first_of(const struct group_place *places, size_t count, const struct group_member *member, const char *group)
{
    size_t low = 0, high = count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare_with(&places[middle], member->issuer, member->is_provisioned, group) < 0) low = middle + 1;
        else high = middle;
    }
    return low;
}

static void write_binding(const struct group_place *place, const struct group_member *member, struct authz_binding *binding)
{
    const struct group_entry *entry = place->entry;

    *binding = place->binding;
    binding->id = group_binding_id(entry, place->grant, member->subject);
    (void)snprintf(binding->issuer, sizeof binding->issuer, "%s", member->issuer);
    (void)snprintf(binding->subject, sizeof binding->subject, "%s", member->subject);
    (void)snprintf(binding->granted_by, sizeof binding->granted_by, "%s%s",
                   member->is_provisioned ? GROUP_GIVER_SCIM : GROUP_GIVER, entry->name);
    binding->is_brief = member->until_ms < place->binding.expires_ms; /* the next login renews it */
    binding->expires_ms = binding->is_brief ? member->until_ms : place->binding.expires_ms;
}

size_t group_bindings_of(const struct group_place *places, size_t count, struct group_member *member, const char *group,
                         struct authz_binding *bindings)
{
    size_t found = 0;

    for (size_t i = first_of(places, count, member, group); i < count && member->count < GROUP_GRANTS_MAX; i++) {
        if (compare_with(&places[i], member->issuer, member->is_provisioned, group) != 0) break;
        if (bindings != NULL) write_binding(&places[i], member, &bindings[found]);
        found++;
        member->count++;
    }
    return found;
}
