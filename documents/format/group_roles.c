#include "documents/format/group_roles.h"

#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "documents/format/document_priv.h"
#include "documents/format/grant.h"

#define DAY_MS        ((int64_t)86400000)
#define SEPARATORS    ",; "
#define GROUPS_LOOKED 1000 /* of a token; a token of 16 KiB has fewer */

static struct result read_grant(const json_t *json, struct group_grant *grant, struct error *err)
{
    struct group_grant read = {0};

    TRY(document_unpack(json, "a grant to a group", err, "{s:s, s:s, s:s}", "group", &read.group, "role", &read.role, "on",
                        &read.on));
    const size_t length = strlen(read.group);
    if (length == 0 || length > GROUP_NAME_MAX || !text_is_visible(bytes_of_text(read.group)))
        return failure(err, ERROR_INVALID, "group: 1 to %d bytes, exactly as the issuer writes it", GROUP_NAME_MAX);
    TRY(grant_check(read.role, read.on, "", err));
    *grant = read;
    return SUCCESS;
}

static struct result read_grants(const json_t *list, struct group_roles *roles, struct error *err)
{
    const size_t count = json_array_size(list);

    if (!json_is_array(list) || count == 0 || count > GROUP_ROLES_GRANTS_MAX)
        return failure(err, ERROR_INVALID, "grant: 1 to %d objects with group, role and on", GROUP_ROLES_GRANTS_MAX);
    for (size_t i = 0; i < count; i++) TRY(read_grant(json_array_get(list, i), &roles->grants[roles->grant_count++], err));
    return SUCCESS;
}

static struct result check_head(const struct document *document, struct error *err)
{
    if (strlen(document->name) > GROUP_ROLES_NAME_MAX)
        return failure(err, ERROR_INVALID, "the name of roles of groups has at most %d characters", GROUP_ROLES_NAME_MAX);
    if (document->scope[0] != '\0')
        return failure(err, ERROR_INVALID, "roles of groups are of the registry: their scope is \"\"");
    if (document->expires_ms == 0 || document->expires_ms - document->effective_ms > GROUP_ROLES_DAYS_MAX * DAY_MS)
        return failure(err, ERROR_INVALID, "roles of groups expire, within %d days", GROUP_ROLES_DAYS_MAX);
    return SUCCESS;
}

struct result group_roles_read(const struct document *document, struct group_roles *roles_out, struct error *err)
{
    struct group_roles roles = {0};
    const json_t *grants = NULL;
    const char *separator = NULL;

    TRY(check_head(document, err));
    TRY(document_unpack(json_object_get(document->json, "body"), "the body of roles of groups", err, "{s:s, s:s, s?:s, s:o}",
                        "issuer", &roles.issuer, "claim", &roles.claim, "separator", &separator, "grant", &grants));
    TRY(document_check_issuer(roles.issuer, err));
    roles.is_provisioned = strcmp(roles.claim, GROUP_ROLES_SCIM) == 0;
    if (!roles.is_provisioned && !claim_pointer_is_valid(roles.claim))
        return failure(err, ERROR_INVALID, "claim: a JSON Pointer, such as /groups, or \"scim\"");
    if (roles.is_provisioned && separator != NULL)
        return failure(err, ERROR_INVALID, "separator: groups of SCIM are no text, so nothing separates them");
    if (separator != NULL && (strlen(separator) != 1 || strchr(SEPARATORS, separator[0]) == NULL))
        return failure(err, ERROR_INVALID, "separator: a comma, a semicolon or a blank");
    roles.separator = separator == NULL ? '\0' : separator[0];
    TRY(read_grants(grants, &roles, err));
    *roles_out = roles;
    return SUCCESS;
}

struct result document_check_group_roles(const struct document *document, const struct document_trust *trust, struct error *err)
{
    struct group_roles roles;

    if (document->is_withdrawn) {
        TRY(check_head(document, err));
        TRY(document_check_empty(document, "roles of groups", err));
    } else {
        TRY(group_roles_read(document, &roles, err));
    }
    return document_check_persons(document, trust, "roles of groups", err);
}

static bool text_has(const char *text, char separator, const char *group)
{
    struct bytes left = bytes_of_text(text);

    if (separator == '\0') return strcmp(text, group) == 0;
    while (left.length > 0)
        if (bytes_equal(text_cut(&left, separator), bytes_of_text(group))) return true;
    return false;
}

bool group_roles_has(const struct group_roles *roles, const json_t *claims, const char *group)
{
    const json_t *found = roles->is_provisioned ? NULL : claim_find(claims, roles->claim);

    if (json_is_string(found)) return text_has(json_string_value(found), roles->separator, group);
    for (size_t i = 0; i < json_array_size(found) && i < GROUPS_LOOKED; i++) {
        const char *text = json_string_value(json_array_get(found, i));
        if (text != NULL && strcmp(text, group) == 0) return true;
    }
    return false;
}
