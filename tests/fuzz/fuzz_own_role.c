/* Roles of strangers: each that is read has a name that no built-in role has, and permits nothing that administrators, officers and approvers do. */
#include <assert.h>
#include <string.h>

#include "documents/format/own_role.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED(document) *document = NULL;
    struct own_role role;
    struct error err = {0};

    if (!document_read_payload(DOCUMENT_OWN_ROLE, (struct bytes){data, size}, &document, &err).ok) return 0;
    if (document->is_withdrawn || !own_role_read(document, &role, &err).ok) return 0;
    assert(document->scope[0] == '\0' && document->expires_ms > document->effective_ms);
    assert(strchr(document->name, '.') != NULL && strlen(document->name) <= OWN_ROLE_NAME_MAX);
    assert(role.organisation == NULL || (role.organisation[0] != '\0' && strlen(role.organisation) < OWN_ORGANISATION_SIZE));
    assert(role.action_count >= 1 && role.action_count <= OWN_ROLE_ACTIONS_MAX);
    for (size_t i = 0; i < role.action_count; i++)
        assert(strstr(role.actions[i], "approve") == NULL || strcmp(role.actions[i], "run.approve") == 0);
    for (size_t i = 0; i < role.action_count; i++) assert(strcmp(role.actions[i], "binding.create") != 0);
    return 0;
}
