/*
 * audit/format/scim_state.h -- what an event about a person of SCIM says of it: the second word of the detail of scim.create, scim.change and scim.end.
 *
 * The row of the person has this state from the event on (docs/formats/audit-dump.md). Events of earlier versions have no such word.
 */
#pragma once

#define SCIM_STATE_INACTIVE "inactive"
#define SCIM_STATE_ACTIVE   "active"
#define SCIM_STATE_DELETED  "deleted"

/** As a dump has them. */
enum scim_state { SCIM_INACTIVE_NOW, SCIM_ACTIVE_NOW, SCIM_DELETED_NOW, SCIM_STATE_COUNT };
