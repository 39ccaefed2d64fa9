/*
 * authz/group_entry.h -- the roles of groups that are in force (docs/identity.md, "Groups"), as a list of trust rules has them.
 *
 * The groups of a person come from the newest token that the person brought to /token. They are rows of the database; what a group may do is in signed
 * documents alone.
 */
#pragma once

#include <stdatomic.h>

#include "authz/trust_rules.h"
#include "documents/format/group_roles.h"

#define GROUP_ENTRIES_MAX 256      /* documents in force, so 16,384 grants: 0.7 MB of the list */
#define GROUP_GIVER_SCIM  "scim:"  /* the same for a group of SCIM */
#define GROUP_GIVER       "group:" /* granted_by of a binding of the snapshot: this, and the name of the document */

struct group_entry {
    char name[GROUP_ROLES_NAME_MAX + 1];
    struct pinned_entry pinned;
    struct group_roles roles;                          /* views into pinned.json */
    atomic_uint places[GROUP_ROLES_GRANTS_MAX];        /* GROUP_PLACED: the organisation or project of the grant is there */
    struct uuid organisations[GROUP_ROLES_GRANTS_MAX]; /* of the places; to be read once one was placed */
};
enum { GROUP_UNPLACED, GROUP_PLACING, GROUP_PLACED, GROUP_GONE };

/** The name of the document in `granted_by` of a role by a group; NULL: it is none. */
const char *group_giver(const char *granted_by);

size_t group_entries_count(const struct trust_rules *rules);
const struct group_entry *group_entries_at(const struct trust_rules *rules, size_t number);
/** Notes that the place of a grant is in this organisation, in an entry that others may be reading. */
void group_entry_place(const struct group_entry *entry, size_t grant, const struct uuid *organisation);
/** Notes that the place is not there any more. */
void group_entry_forget(const struct group_entry *entry, size_t grant);
bool group_entry_is_placed(const struct group_entry *entry, size_t grant);
/** Of a place that is or was there. */
const struct uuid *group_entry_organisation(const struct group_entry *entry, size_t grant);

/** The id of the binding of a snapshot by which a subject of the issuer has the grant: always the same for the same version of the document. */
struct uuid group_binding_id(const struct group_entry *entry, size_t grant, const char *subject);
