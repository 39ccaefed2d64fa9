/*
 * scim/attribute.h -- attributes of SCIM (RFC 7643), as the registry knows them, and the words of its errors (RFC 7644, 3.12).
 *
 * The registry keeps what it needs of a person: who it is (externalId), whether it may come in (active), and what it is called (userName, displayName). All other
 * attributes of the standard are taken and dropped; an attribute that the standard does not have is refused. Rule: nothing here allocates, unless it says so.
 */
#pragma once

#include "base/json.h"

#define SCIM_USER_URN  "urn:ietf:params:scim:schemas:core:2.0:User"
#define SCIM_GROUP_URN "urn:ietf:params:scim:schemas:core:2.0:Group"
#define SCIM_PATCH_URN "urn:ietf:params:scim:api:messages:2.0:PatchOp"
#define SCIM_LIST_URN  "urn:ietf:params:scim:api:messages:2.0:ListResponse"
#define SCIM_ERROR_URN "urn:ietf:params:scim:api:messages:2.0:Error"

#define SCIM_NAME_MAX     256 /* bytes of userName and displayName */
#define SCIM_EXTERNAL_MAX 255 /* bytes of externalId, as of a subject */

enum scim_attribute {
    SCIM_ID,
    SCIM_EXTERNAL_ID,
    SCIM_USER_NAME,
    SCIM_DISPLAY_NAME,
    SCIM_ACTIVE,
    SCIM_MEMBERS,
    SCIM_READ_ONLY, /* schemas, meta, groups: clients send them back, and they change nothing */
    SCIM_NOT_KEPT   /* name, emails, password, roles and so on */
};

/** "userName", "members.value", each also behind a URN, in any case. `sub_out`: what follows the dot, or empty. False: the standard has no such attribute. */
bool scim_attribute_find(struct bytes path, enum scim_attribute *attribute_out, struct bytes *sub_out);

/** Whether both are the same name: ASCII letters in any case (RFC 7643, 2.1). */
bool scim_name_is(struct bytes name, const char *wanted);

/** The member with this name, in any case; NULL: none. ERROR_INVALID if it is there twice. */
RESULT scim_member(const json_t *object, const char *name, const json_t **value_out, struct error *err);

/**
 * Messages of SCIM's parsers and changes begin with a word of RFC 7644, 3.12, and ": ". Returns the word as a constant, and where the sentence begins; NULL: the message has
 * none.
 */
const char *scim_error_type(const char *message, const char **sentence_out);
