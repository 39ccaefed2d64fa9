/* `sijil admin scim list`: whose persons a program provisions, and how many (docs/scim.md). The other commands are those of documents of the registry. */
#include "base/json.h"
#include "client/commands/audit_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/documents.h"

static const struct documents_list services = {"/scim", "scim", "document of a SCIM service", false};

static struct result flatten_service(const json_t *row, json_t *flat, struct error *err)
{
    const json_t *document = json_object_get(row, "document"), *state = json_object_get(row, "provisioned");
    OWNED_JSON shown = json_pack("{s:O?, s:O?, s:O?}", "name", json_object_get(row, "name"), "state",
                                 json_object_get(row, "state"), "version", json_object_get(document, "version"));

    if (shown == NULL || json_object_update(shown, json_object_get(document, "body")) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    if (state != NULL && json_object_update(shown, (json_t *)(uintptr_t)state) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    return json_array_append(flat, shown) == 0 ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no memory for a list");
}

struct result command_scim_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"NAME", "name"},       {"STATE", "state"},
                                            {"VERSION", "version"}, {"ISSUER", "issuer"},
                                            {"CLIENT", "client"},   {"LIMIT", "deactivations"},
                                            {"ACTIVE", "active"},   {"INACTIVE", "inactive"},
                                            {"GROUPS", "groups"},   {"DEACTIVATED", "deactivated"}};
    OWNED(session) *session = NULL;
    OWNED_JSON rows = json_array();
    OWNED_JSON flat = json_array();

    if (rows == NULL || flat == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_get_all(invocation, session, &services, rows, err));
    for (size_t i = 0; i < json_array_size(rows); i++) TRY(flatten_service(json_array_get(rows, i), flat, err));
    return api_print_rows(invocation, flat, columns, sizeof columns / sizeof columns[0], err);
}
