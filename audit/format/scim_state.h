/*
 * audit/format/scim_state.h -- what events about persons and groups of SCIM say of the rows.
 *
 * The second word of the detail of scim.create, scim.change and scim.end is the state of the person from the event on. A scim.group has the digest of the
 * members from then on, and of those before (docs/formats/audit-dump.md). Events of earlier versions have none of these words.
 */
#pragma once

#define SCIM_STATE_INACTIVE "inactive"
#define SCIM_STATE_ACTIVE   "active"
#define SCIM_STATE_DELETED  "deleted"  /* of a group, too */
#define SCIM_MEMBERS_NOW    "members=" /* and SHA-256 in hexadecimal, also of the externalId */
#define SCIM_MEMBERS_WAS    "was="     /* of the members before the event; not in the first event of a group */
#define SCIM_PERSON         "person="  /* of a token.mint that joins a subject with a person: the id of SCIM */
#define SCIM_IDENTITY       "as="      /* and SHA-256 in hexadecimal, of a salt and the externalId of a person */
#define SCIM_LINK           "link="    /* the same of a salt, the externalId and a subject of the person's tokens */

/** As a dump has them. */
enum scim_state { SCIM_INACTIVE_NOW, SCIM_ACTIVE_NOW, SCIM_DELETED_NOW, SCIM_STATE_COUNT };
