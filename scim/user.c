#include "scim/user.h"

#include <string.h>

#include "scim/edit_priv.h"

static struct result remove_one(struct scim_user_edit *edit, enum scim_attribute attribute, struct error *err)
{
    switch (attribute) {
    case SCIM_DISPLAY_NAME:
        edit->has_display_name = true;
        edit->display_name[0] = '\0';
        return SUCCESS;
    case SCIM_NOT_KEPT: return SUCCESS;
    case SCIM_ACTIVE:
    case SCIM_USER_NAME:
    case SCIM_EXTERNAL_ID:
    case SCIM_ID:
    case SCIM_READ_ONLY:
        return failure(err, ERROR_INVALID, "mutability: userName, externalId, active, id and meta can't be removed");
    case SCIM_MEMBERS: break;
    }
    return failure(err, ERROR_INVALID, "invalidPath: a User has no members");
}

static struct result set_one(struct scim_user_edit *edit, enum scim_attribute attribute, const json_t *value, struct error *err)
{
    switch (attribute) {
    case SCIM_USER_NAME: edit->has_name = true; return scim_text_read(value, "userName", 1, SCIM_NAME_MAX, edit->user_name, err);
    case SCIM_DISPLAY_NAME:
        edit->has_display_name = true;
        return scim_text_read(value, "displayName", 0, SCIM_NAME_MAX, edit->display_name, err);
    case SCIM_EXTERNAL_ID:
        edit->has_external_id = true;
        return scim_text_read(value, "externalId", 1, SCIM_EXTERNAL_MAX, edit->external_id, err);
    case SCIM_ACTIVE: edit->has_active = true; return scim_flag_read(value, "active", &edit->active, err);
    case SCIM_ID:
    case SCIM_READ_ONLY:
    case SCIM_NOT_KEPT: return SUCCESS;
    case SCIM_MEMBERS: break;
    }
    return failure(err, ERROR_INVALID, "invalidPath: a User has no members");
}

static struct result apply(void *context, const struct scim_operation *operation, struct error *err)
{
    struct scim_user_edit *edit = context;

    if (operation->operator== SCIM_REMOVE) return remove_one(edit, operation->path.attribute, err);
    return set_one(edit, operation->path.attribute, operation->value, err);
}

struct result scim_user_read(const json_t *body, struct scim_user_edit *edit_out, struct error *err)
{
    struct scim_user_edit edit = {.is_whole = true};

    TRY(scim_body_read(body, SCIM_USER_URN, &edit, apply, err));
    if (!edit.has_name) return failure(err, ERROR_INVALID, "invalidValue: userName is required");
    if (!edit.has_external_id)
        return failure(err, ERROR_INVALID,
                       "invalidValue: externalId is required: the immutable id that the person's tokens have");
    if (!edit.has_active) edit.active = true; /* of a new person; a PUT that leaves it out changes nothing */
    edit.has_display_name = true;
    *edit_out = edit;
    return SUCCESS;
}

struct result scim_user_patch(const json_t *body, struct scim_user_edit *edit_out, struct error *err)
{
    struct scim_user_edit edit = {.is_whole = false};

    TRY(scim_patch_read(body, &edit, apply, err));
    *edit_out = edit;
    return SUCCESS;
}

bool scim_user_ends(const struct scim_user_edit *edit)
{
    return edit->has_active && !edit->active;
}
