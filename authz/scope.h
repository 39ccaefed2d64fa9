/*
 * authz/scope.h -- the `scope` parameter of /token and of challenges.
 *
 * "repository:<name>:pull,push" names rights on one repository; the name may hold a port, so the last colon ends it.
 * "registry:catalog:*" is for the list of repositories, "registry:admin:*" for /api/v1. Lists are separated by
 * spaces (RFC 6749, 3.3), and the parameter may come several times. What is not known is ignored: fewer rights than
 * asked is no error.
 */
#pragma once

#include "audit/action.h"
#include "authz/principal.h"

#define SCOPE_TEXT_MAX 8192 /* one parameter */

/** Rights on repositories, asked for or granted; at most PRINCIPAL_ACCESS_MAX of them. */
struct scope {
    size_t count;
    struct principal_access access[PRINCIPAL_ACCESS_MAX];
    bool catalog, administration;
};

/** Adds one parameter to `scope`; ERROR_INVALID for a foreign character, ERROR_LIMIT for too much. */
RESULT scope_add(struct scope *scope, struct bytes text, struct error *err);

/** Keeps of `wanted` what `live` has too, and takes over its repository id. */
void scope_narrow(struct principal_access *wanted, const struct principal_access *live);
/** Drops what has no right left. */
void scope_compact(struct scope *scope);

/** Appends the text of a scope; nothing for an empty one. */
RESULT scope_write(const struct scope *scope, struct buffer *text, struct error *err);
/** The scope that a client needs for these pairs: for challenges. The same whether or not a thing exists. */
void scope_of_pairs(const struct action_pair *pairs, size_t count, struct scope *scope_out);
