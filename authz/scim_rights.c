#include <string.h>

#include "authz/scim_rights_priv.h"
#include "authz/trust_rules_priv.h"
#include "base/clock.h"

static void add_place(struct scim_places *places, const char *on)
{
    const size_t length = strcspn(on, "/");

    if (length >= sizeof places->names[0]) return; /* no organisation has such a name */
    for (size_t i = 0; i < places->count; i++)
        if (strncmp(places->names[i], on, length) == 0 && places->names[i][length] == '\0') return;
    places->is_everywhere = places->is_everywhere || places->count == SCIM_PLACES_MAX;
    if (places->is_everywhere) return;
    memcpy(places->names[places->count], on, length);
    places->names[places->count++][length] = '\0';
}

static bool is_of(const struct group_grant *grant, const char *id, const char *external_id)
{
    if (id == NULL && external_id == NULL) return true;
    return (id != NULL && strcmp(grant->group, id) == 0) || (external_id != NULL && strcmp(grant->group, external_id) == 0);
}

void scim_places_find(const struct trust_rules *rules, const char *issuer, const char *id, const char *external_id,
                      struct scim_places *places)
{
    for (size_t i = 0; i < group_entries_count(rules); i++) {
        const struct group_roles *roles = &group_entries_at(rules, i)->roles;
        if (!roles->is_provisioned || strcmp(roles->issuer, issuer) != 0) continue;
        for (size_t number = 0; number < roles->grant_count; number++)
            if (is_of(&roles->grants[number], id, external_id)) add_place(places, roles->grants[number].on);
    }
}

struct result scim_service_now(const struct scim_client *client, struct authz_snapshot **snapshot_out,
                               const struct scim_entry **entry_out, struct error *err)
{
    OWNED(authz_snapshot) *snapshot = authz_directory_take(client->directory);

    if (snapshot == NULL) return failure(err, ERROR_UNAVAILABLE, "rights are not loaded yet");
    const struct scim_entry *entry = scim_entry_of_client(authz_snapshot_rules(snapshot), client->principal, clock_wall_ms());
    if (entry == NULL || strcmp(entry->service.issuer, client->issuer) != 0)
        return failure(err, ERROR_DENIED, "the document of the SCIM service has changed meanwhile; try again");
    *entry_out = entry;
    *snapshot_out = GIVE(snapshot);
    return SUCCESS;
}
