#include "scim/group.h"

#include <string.h>

#include "scim/edit_priv.h"

static struct result note(struct scim_group_edit *edit, const char *id, bool is_added, struct error *err)
{
    struct uuid ignored;

    if (!uuid_parse(bytes_of_text(id), &ignored))
        return failure(err, ERROR_INVALID, "invalidValue: a member's value is the id of a User of this service");
    if (json_object_size(edit->members) >= SCIM_MEMBERS_MAX && json_object_get(edit->members, id) == NULL)
        return failure(err, ERROR_INVALID, "tooMany: at most %d members in one request", SCIM_MEMBERS_MAX);
    if (json_object_set_new(edit->members, id, json_boolean(is_added)) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for members");
}

static struct result note_member(struct scim_group_edit *edit, const json_t *member, bool is_added, struct error *err)
{
    const json_t *value = NULL, *type = NULL;

    if (!json_is_object(member)) return failure(err, ERROR_INVALID, "invalidValue: a member is an object with value");
    TRY(scim_member(member, "value", &value, err));
    TRY(scim_member(member, "type", &type, err));
    if (!json_is_string(value)) return failure(err, ERROR_INVALID, "invalidValue: a member is an object with value");
    if (json_is_string(type) && !scim_name_is(bytes_of_text(json_string_value(type)), "User"))
        return failure(err, ERROR_INVALID, "invalidValue: members of a group are persons: groups in groups are not kept");
    return note(edit, json_string_value(value), is_added, err);
}

/* A list, or one member. */
static struct result note_members(struct scim_group_edit *edit, const json_t *value, bool is_added, struct error *err)
{
    if (json_is_object(value)) return note_member(edit, value, is_added, err);
    if (!json_is_array(value)) return failure(err, ERROR_INVALID, "invalidValue: members is a list");
    if (json_array_size(value) > SCIM_MEMBERS_MAX)
        return failure(err, ERROR_INVALID, "tooMany: at most %d members in one request", SCIM_MEMBERS_MAX);
    for (size_t i = 0; i < json_array_size(value); i++) TRY(note_member(edit, json_array_get(value, i), is_added, err));
    return SUCCESS;
}

static void replace_all(struct scim_group_edit *edit)
{
    edit->replaces_members = true;
    (void)json_object_clear(edit->members);
}

static struct result change_members(struct scim_group_edit *edit, const struct scim_operation *operation, struct error *err)
{
    const bool removes = operation->operator== SCIM_REMOVE;

    if (operation->path.has_value) {
        if (removes) return note(edit, operation->path.value, false, err);
        return failure(err, ERROR_INVALID, "invalidPath: one member can be removed by its value; add it to members");
    }
    if (removes && operation->value != NULL && !json_is_null(operation->value))
        return note_members(edit, operation->value, false, err); /* as some clients write it */
    if (operation->operator!= SCIM_ADD) replace_all(edit);
    return removes || json_is_null(operation->value) ? SUCCESS : note_members(edit, operation->value, true, err);
}

static struct result set_one(struct scim_group_edit *edit, const struct scim_operation *operation, struct error *err)
{
    const bool removes = operation->operator== SCIM_REMOVE;

    switch (operation->path.attribute) {
    case SCIM_MEMBERS: return change_members(edit, operation, err);
    case SCIM_DISPLAY_NAME:
        if (removes) return failure(err, ERROR_INVALID, "mutability: displayName can't be removed");
        edit->has_name = true;
        return scim_text_read(operation->value, "displayName", 1, SCIM_NAME_MAX, edit->display_name, err);
    case SCIM_EXTERNAL_ID:
        if (removes) return failure(err, ERROR_INVALID, "mutability: externalId can't be removed");
        edit->has_external_id = true;
        return scim_text_read(operation->value, "externalId", 0, SCIM_EXTERNAL_MAX, edit->external_id, err);
    case SCIM_ID:
    case SCIM_READ_ONLY:
        if (removes) return failure(err, ERROR_INVALID, "mutability: id, schemas and meta can't be removed");
        return SUCCESS;
    case SCIM_ACTIVE:
    case SCIM_USER_NAME:
    case SCIM_NOT_KEPT: break;
    }
    return failure(err, ERROR_INVALID, "invalidPath: a Group has displayName, externalId and members");
}

static struct result apply(void *context, const struct scim_operation *operation, struct error *err)
{
    return set_one(context, operation, err);
}

static struct result begin(struct scim_group_edit *edit, struct error *err)
{
    *edit = (struct scim_group_edit){.members = json_object()};
    return edit->members == NULL ? failure(err, ERROR_NO_MEMORY, "no memory for members") : SUCCESS;
}

struct result scim_group_read(const json_t *body, struct scim_group_edit *edit, struct error *err)
{
    TRY(begin(edit, err));
    edit->replaces_members = true;
    TRY(scim_body_read(body, SCIM_GROUP_URN, edit, apply, err));
    return edit->has_name ? SUCCESS : failure(err, ERROR_INVALID, "invalidValue: displayName is required");
}

struct result scim_group_patch(const json_t *body, struct scim_group_edit *edit, struct error *err)
{
    TRY(begin(edit, err));
    return scim_patch_read(body, edit, apply, err);
}

size_t scim_group_ids(const struct scim_group_edit *edit, bool added, struct uuid *ids_out)
{
    const char *id = NULL;
    json_t *value = NULL;
    size_t count = 0;

    json_object_foreach (edit->members, id, value)
        if (json_is_true(value) == added && uuid_parse(bytes_of_text(id), &ids_out[count])) count++;
    return count;
}

void scim_group_edit_done(struct scim_group_edit *edit)
{
    json_decref(edit->members);
    edit->members = NULL;
}
