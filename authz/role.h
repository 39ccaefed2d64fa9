/*
 * authz/role.h -- roles, the actions that they permit, and the right of a token that an action needs.
 *
 * The table is authz/roles.def. A role permits something only through a binding, on the scope of that binding
 * (authz/snapshot.h).
 */
#pragma once

#include "audit/action.h"
#include "authz/principal.h"

enum role {
#define ROLE(constant, name, refusal, scopes, actions, grants, meaning) constant,
#include "authz/roles.def"
#undef ROLE
    ROLE_COUNT,
    ROLE_OWN = ROLE_COUNT /* of a binding: a role of a signed document (authz/own_role_entry.h), which has no row in the table */
};

#define ROLE_NAME_SIZE 24 /* "security-officer" and room */

/** "publisher" and so on. */
const char *role_name(enum role role);
/** One sentence for a person. */
const char *role_meaning(enum role role);
bool role_find(struct bytes name, enum role *role_out);
bool role_permits(enum role role, enum action action);
/**
 * Whether a role gives rights on content and none over other principals. Robots whose roles are all of this kind may
 * send their secret with each request.
 */
bool role_is_of_content(enum role role);
/** Whether the role decides over others: it may approve keys. Once documents of officers are demanded, a binding alone does not give it (authz/officer_entry.h). */
bool role_is_of_officers(enum role role);
/** Whether holders of the role may know which repositories exist in its scope. */
bool role_may_know_existence(enum role role);
/** Whether the role may be bound on a scope of this kind. */
bool role_allows_scope(enum role role, enum resource_kind scope);
/** Whether holders of `role` may grant `granted` to others. */
bool role_may_grant(enum role role, enum role granted);

/** Actions that any live credential permits without a binding: ping, mint a token, list visible things. */
bool action_needs_no_role(enum action action);

/** Whether the action is permitted to runners, which have no roles. No role permits it. */
bool action_is_for_runners(enum action action);
/** Whether the robot may do it that the document of a SCIM service names. */
bool action_is_for_provisioners(enum action action);

/** The right that a token's scope must have for an action. */
enum access_right { RIGHT_NONE, RIGHT_PULL, RIGHT_PUSH, RIGHT_DELETE, RIGHT_CATALOG, RIGHT_ADMINISTRATION };
enum access_right action_right(enum action action);

/**
 * Whether the pair is inside the scope of the principal's token. Always true for a credential that is not a token of
 * ours. A repository that was deleted and made again under the same name has another id, so it is outside.
 */
bool principal_covers(const struct principal *principal, enum action action, const struct resource *resource);

#define PRINCIPAL_KEY_SIZE 80 /* "ext:" and 64 hex digits */
/** "robot:<uuid>", "runner:<uuid>", "run:<uuid>", or "ext:<SHA-256 of issuer, newline, subject>": identifies a principal without personal data. */
void principal_key(const struct principal *principal, char key_out[PRINCIPAL_KEY_SIZE]);
