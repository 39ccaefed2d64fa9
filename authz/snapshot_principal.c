/* Finds a principal by the key under which documents and rows name it. */
#include <stdio.h>
#include <string.h>

#include "authz/snapshot_priv.h"

static bool find_robot(const struct authz_snapshot *snapshot, const char *key, struct principal *principal)
{
    static const char prefix[] = "robot:";
    struct uuid id;

    if (strncmp(key, prefix, sizeof prefix - 1) != 0 || !uuid_parse(bytes_of_text(key + sizeof prefix - 1), &id)) return false;
    const struct authz_robot *robot = authz_snapshot_robot(snapshot, &id);
    if (robot == NULL) return false;
    principal->kind = PRINCIPAL_ROBOT;
    principal->id = robot->id;
    principal->organisation = robot->organisation;
    principal->expires_ms = robot->expires_ms;
    principal->replaced_ms = robot->previous_until_ms;
    (void)snprintf(principal->subject, sizeof principal->subject, "%s", robot->name);
    return true;
}

static bool find_in(const struct rights_part *part, const char *key, struct principal *principal)
{
    const struct authz_binding *binding = part_binding_of_key(part, key);

    if (binding == NULL) return false;
    *principal = (struct principal){.kind = PRINCIPAL_EXTERNAL, .expires_ms = INT64_MAX};
    (void)snprintf(principal->issuer, sizeof principal->issuer, "%s", binding->issuer);
    (void)snprintf(principal->subject, sizeof principal->subject, "%s", binding->subject);
    return true;
}

bool authz_snapshot_principal(const struct authz_snapshot *snapshot, const char *key, const struct uuid *organisation,
                              struct principal *principal_out)
{
    const struct rights_part *part = NULL;
    struct principal principal = {.kind = PRINCIPAL_NONE};
    bool is_found = find_robot(snapshot, key, &principal);

    for (unsigned at = 0; !is_found && snapshot_next_part(snapshot, organisation, &at, &part);)
        is_found = find_in(part, key, &principal);
    if (is_found) *principal_out = principal;
    return is_found;
}
