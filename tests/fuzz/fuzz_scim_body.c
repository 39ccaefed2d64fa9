/* Bodies of SCIM: whatever is read of a person or a group is within its bounds. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "scim/group.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_user(const json_t *body)
{
    struct scim_user_edit edit = {.is_whole = false};
    struct error err = {0};

    if (scim_user_read(body, &edit, &err).ok) assert(edit.has_name && edit.has_external_id && edit.user_name[0] != '\0');
    if (scim_user_patch(body, &edit, &err).ok) assert(!edit.is_whole);
    assert(strlen(edit.user_name) <= SCIM_NAME_MAX && strlen(edit.external_id) <= SCIM_EXTERNAL_MAX);
    (void)scim_user_ends(&edit);
}

static void check_ids(const struct scim_group_edit *edit)
{
    const size_t count = json_object_size(edit->members);
    struct uuid *ids = memory_zeroed(count + 1, sizeof *ids);

    assert(count <= SCIM_MEMBERS_MAX);
    if (ids == NULL) return;
    const size_t added = scim_group_ids(edit, true, ids);
    assert(added + scim_group_ids(edit, false, ids) == count);
    free(ids);
}

static void check_group(const json_t *body, struct result (*read)(const json_t *, struct scim_group_edit *, struct error *))
{
    struct scim_group_edit edit = {.members = NULL};
    struct error err = {0};

    if (read(body, &edit, &err).ok) check_ids(&edit);
    scim_group_edit_done(&edit);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED_JSON body = NULL;
    struct error err = {0};

    if (!json_read((struct bytes){data, size}, 1 << 20, &body, &err).ok || !json_is_object(body)) return 0;
    check_user(body);
    check_group(body, scim_group_read);
    check_group(body, scim_group_patch);
    return 0;
}
