/*
 * authz/own_role_entry.h -- roles of an organisation's own (docs/identity.md, "Roles of your own"): the documents that are in force, as a list of trust rules
 * has them, and such a role as a binding has it.
 */
#pragma once

#include "authz/entry_place.h"
#include "authz/role.h"
#include "authz/trust_rules.h"
#include "documents/format/own_role.h"

#define OWN_ROLES_MAX    256 /* documents in force */
#define OWN_ACTION_WORDS ((ACTION_COUNT + 63) / 64)

/** The role of a binding with ROLE_OWN. By value, because the parts of a snapshot outlive lists of documents. */
struct own_role_use {
    char name[OWN_ROLE_NAME_MAX + 1];
    uint64_t version; /* 0: no document of this name counts here, so the role permits nothing */
    int64_t effective_ms, expires_ms;
    uint64_t actions[OWN_ACTION_WORDS]; /* a bit each */
};

struct own_role_entry {
    char name[OWN_ROLE_NAME_MAX + 1];
    char organisation[OWN_ORGANISATION_SIZE]; /* "": it counts in all */
    struct pinned_entry pinned;
    struct own_role_use use;
    struct entry_place place; /* of the organisation; it was there when the document was signed */
};

size_t own_role_entries_count(const struct trust_rules *rules);
const struct own_role_entry *own_role_entries_at(const struct trust_rules *rules, size_t number);

/** Fills `use`, whose name is set, with what its document says; the binding is in this organisation. `rules` may be NULL. */
void own_role_resolve(const struct trust_rules *rules, const struct uuid *organisation, struct own_role_use *use);

bool own_role_is_in_force(const struct own_role_use *use, int64_t now_ms);
bool own_role_permits(const struct own_role_use *use, enum action action);
/** Whether it permits nothing but what roles on content permit, as role_is_of_content(). */
bool own_role_is_of_content(const struct own_role_use *use);
bool own_role_may_know_existence(const struct own_role_use *use);
/** Whether holders of `held` may grant it: each of its actions is permitted by a role that they may grant. One without a document may permit all. */
bool own_role_may_be_granted(enum role held, const struct own_role_use *use);
