/*
 * authz/role.h -- roles, what they permit, and which right of a token an action needs.
 *
 * All of it comes from authz/roles.def. A role permits nothing by itself: it counts through a binding, on the scope
 * of that binding (authz/snapshot.h).
 */
#pragma once

#include "audit/action.h"
#include "authz/principal.h"

enum role {
#define ROLE(constant, name, sight, places, actions, grants, meaning) constant,
#include "authz/roles.def"
#undef ROLE
    ROLE_COUNT
};

#define ROLE_NAME_SIZE 24 /* "security-officer" and room */

/** "publisher" and so on. */
const char *role_name(enum role role);
/** One sentence for a person. */
const char *role_meaning(enum role role);
bool role_find(struct bytes name, enum role *role_out);
bool role_permits(enum role role, enum action action);
/** Does it give rights on content and nothing that governs others? Such robots may send their secret with each request. */
bool role_is_of_content(enum role role);
/** Do its holders know which repositories there are in its scope? */
bool role_sees(enum role role);
/** May it be bound on a scope of this kind? */
bool role_fits(enum role role, enum resource_kind scope);
/** May holders of `role` give `granted` to others? */
bool role_may_grant(enum role role, enum role granted);

/** Actions that any live credential may do, without a binding: ping, mint a token, list what it may see. */
bool action_needs_no_role(enum action action);

/** What a token must carry for an action; the docs call it scope. */
enum access_right { RIGHT_NONE, RIGHT_PULL, RIGHT_PUSH, RIGHT_DELETE, RIGHT_CATALOG, RIGHT_ADMINISTRATION };
enum access_right action_right(enum action action);

/**
 * Is the pair inside what the principal's token was minted for? Always, for a credential that is no token of ours.
 * A repository that was deleted and made again under the same name has another id and is outside.
 */
bool principal_covers(const struct principal *principal, enum action action, const struct resource *resource);

#define PRINCIPAL_KEY_SIZE 80 /* "ext:" and 64 hex digits */
/** "robot:<uuid>", or "ext:<SHA-256 of issuer, newline, subject>": names a principal without naming a person. */
void principal_key(const struct principal *principal, char key_out[PRINCIPAL_KEY_SIZE]);
