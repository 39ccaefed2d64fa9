/*
 * scim/user.h -- what a request of SCIM makes of a person: the body of POST and PUT, or the operations of PATCH (RFC 7644, 3.5).
 *
 * Nothing here allocates. ERROR_INVALID begins with a word of RFC 7644, 3.12.
 */
#pragma once

#include "scim/filter.h"

#define SCIM_OPERATIONS_MAX 1000 /* of one PATCH */

struct scim_user_edit {
    bool is_whole;                                                /* of POST and PUT: a displayName that is left out is removed */
    bool has_name, has_display_name, has_active, has_external_id; /* otherwise it stays as it is */
    char user_name[SCIM_NAME_MAX + 1];
    char display_name[SCIM_NAME_MAX + 1]; /* "": none */
    char external_id[SCIM_EXTERNAL_MAX + 1];
    bool active; /* of a new person without has_active: true */
};
/** Of POST and PUT: userName and externalId are there. */
RESULT scim_user_read(const json_t *body, struct scim_user_edit *edit_out, struct error *err);
/** Of PATCH. Without effect: none of the flags is set. */
RESULT scim_user_patch(const json_t *body, struct scim_user_edit *edit_out, struct error *err);
/** Whether the person may not come in afterwards. */
bool scim_user_ends(const struct scim_user_edit *edit);
