/*
 * authz/token_scope.h -- the `scope` parameter of /token and of challenges.
 *
 * "repository:<name>:pull,push" asks for rights on one repository. The name may contain a port, so the last colon
 * ends it. "registry:catalog:*" is for the list of repositories, "registry:admin:*" for /api/v1. Entries are
 * separated by spaces (RFC 6749, 3.3), and the parameter may be repeated. Unknown entries are ignored: a token may
 * have fewer rights than requested.
 */
#pragma once

#include "audit/action.h"
#include "authz/principal.h"

#define TOKEN_SCOPE_MAX 8192 /* one parameter */

/** Requested or granted rights. */
struct token_scope {
    size_t count;
    struct principal_access access[PRINCIPAL_ACCESS_MAX];
    bool catalog, administration;
};

/**
 * Adds one parameter to `scope`; ERROR_INVALID for a character that RFC 6749 does not allow, ERROR_LIMIT for too many
 * entries.
 */
RESULT token_scope_add(struct token_scope *scope, struct bytes text, struct error *err);

/** Drops the rights of `wanted` that `live` lacks, and copies the repository id of `live`. */
void token_scope_narrow(struct principal_access *wanted, const struct principal_access *live);
/** Drops entries without a right. */
void token_scope_compact(struct token_scope *scope);

/** Appends the text of a scope; nothing for an empty one. */
RESULT token_scope_write(const struct token_scope *scope, struct buffer *text, struct error *err);
/** The scope that a client needs for these pairs: for challenges. Does not depend on whether a thing exists. */
void token_scope_of_pairs(const struct action_pair *pairs, size_t count, struct token_scope *scope_out);
