/*
 * authz/group_place.h -- from groups to bindings of a snapshot: a person who is in a group has what signed documents grant to the group.
 */
#pragma once

#include "authz/group_entry.h"
#include "authz/snapshot.h"

#define GROUP_GRANTS_MAX 128 /* that one person has by groups: half of what a check of rights walks */

/** A grant to a group, on a place that exists. */
struct group_place {
    const struct group_entry *entry;
    size_t grant;
    struct authz_binding binding; /* role, scope and ids; the person is missing */
};
const char *group_place_group(const struct group_place *place);
/** Sets when the grant ends. False: the groups are those of SCIM, and no service of the issuer is in force. */
bool group_place_end(const struct trust_rules *rules, struct group_place *place);
/** By source, issuer and group, as group_bindings_of() needs them. */
void group_places_sort(struct group_place *places, size_t count);

/** A person, by the newest token. */
struct group_member {
    const char *issuer, *subject;
    bool is_provisioned; /* by the groups of SCIM, not by those of the newest token */
    int64_t until_ms;
    size_t count; /* of bindings so far; never more than GROUP_GRANTS_MAX */
};
/** The bindings that the member has by this group; writes them, unless `bindings` is NULL, and returns their number. */
size_t group_bindings_of(const struct group_place *places, size_t count, struct group_member *member, const char *group,
                         struct authz_binding *bindings);
