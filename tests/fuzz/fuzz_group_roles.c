/* Roles of groups of strangers: each that is read gives roles on content, or of documents of their own, on a place, to a group that a person can see. */
#include <assert.h>
#include <string.h>

#include "base/text.h"
#include "documents/format/group_roles.h"
#include "documents/format/own_role.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_grant(const struct group_grant *grant)
{
    assert(strcmp(grant->role, "publisher") == 0 || strcmp(grant->role, "promoter") == 0 ||
           strcmp(grant->role, "consumer") == 0 || strcmp(grant->role, "trainer") == 0 || own_role_name_is_valid(grant->role));
    assert(grant->on[0] != '\0' && grant->on[0] != '/' && strlen(grant->on) <= 255);
    assert(grant->group[0] != '\0' && strlen(grant->group) <= GROUP_NAME_MAX && text_is_visible(bytes_of_text(grant->group)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED(document) *document = NULL;
    struct group_roles roles;
    struct error err = {0};

    if (!document_read_payload(DOCUMENT_GROUP_ROLES, (struct bytes){data, size}, &document, &err).ok) return 0;
    if (document->is_withdrawn || !group_roles_read(document, &roles, &err).ok) return 0;
    assert(roles.grant_count >= 1 && roles.grant_count <= GROUP_ROLES_GRANTS_MAX && document->scope[0] == '\0');
    assert(strncmp(roles.issuer, "https://", 8) == 0 && claim_pointer_is_valid(roles.claim));
    for (size_t i = 0; i < roles.grant_count; i++) check_grant(&roles.grants[i]);
    (void)group_roles_has(&roles, document->json, roles.grants[0].group);
    return 0;
}
