/*
 * scim/group.h -- what a request of SCIM makes of a group: the body of POST and PUT, or the operations of PATCH (RFC 7644, 3.5).
 *
 * Members are persons, by their ids; groups in groups are refused. ERROR_INVALID begins with a word of RFC 7644, 3.12.
 */
#pragma once

#include "base/uuid.h"
#include "scim/user.h"

#define SCIM_MEMBERS_MAX 10000 /* of a group, and of one request */

struct scim_group_edit {
    bool has_name, has_external_id;
    char display_name[SCIM_NAME_MAX + 1];
    char external_id[SCIM_EXTERNAL_MAX + 1]; /* "": none */
    bool replaces_members;                   /* those that are not added go */
    json_t *members; /* id: true if it is added, false if it is removed; the last operation on each counts */
};
/** Of POST and PUT: displayName is there, and members are replaced. scim_group_edit_done() in any case. */
RESULT scim_group_read(const json_t *body, struct scim_group_edit *edit, struct error *err);
RESULT scim_group_patch(const json_t *body, struct scim_group_edit *edit, struct error *err);
/** The ids that are added (or removed); their number is at most json_object_size(edit->members). */
size_t scim_group_ids(const struct scim_group_edit *edit, bool added, struct uuid *ids_out);
void scim_group_edit_done(struct scim_group_edit *edit);
