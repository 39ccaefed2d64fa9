/*
 * documents/format/own_role.h -- a role of an organisation's own, as a set of actions (docs/identity.md, "Roles of your own").
 *
 * A document of the kind role, of the registry: its scope is "", its name is the role's. Each version replaces the one before; a withdrawal is a higher
 * version with an empty body. Two approvers of different principals sign it, or the root; one of them signs a withdrawal.
 *
 * The name has a dot, which no built-in role has, so neither can take the place of the other.
 */
#pragma once

#include "documents/format/document.h"

#define OWN_ROLE_NAME_MAX     63
#define OWN_ROLE_DAYS_MAX     732
#define OWN_ROLE_BYTES_MAX    ((size_t)4 * 1024)
#define OWN_ROLE_ACTIONS_MAX  64 /* more than documents/format/own_actions.def has */
#define OWN_ROLE_MEANING_MAX  200
#define OWN_ORGANISATION_SIZE 64

/** Views into the document, which must stay. */
struct own_role {
    const char *organisation; /* where it counts; NULL: in all */
    const char *meaning;      /* one sentence for a person */
    size_t action_count;
    const char *actions[OWN_ROLE_ACTIONS_MAX];
};

/** "acme.curator": a-z, 0-9, '-' and '_' with dots between, at most OWN_ROLE_NAME_MAX. */
bool own_role_name_is_valid(const char *name);

/** Reads the body of a document of this kind that is no withdrawal. ERROR_INVALID says what is wrong. */
RESULT own_role_read(const struct document *document, struct own_role *role_out, struct error *err);
