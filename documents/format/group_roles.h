/*
 * documents/format/group_roles.h -- which groups of an issuer get which roles (docs/identity.md, "Groups").
 *
 * A document of the kind group-roles, of the registry: its scope is "". Each version replaces the one before; a withdrawal is a higher version with an
 * empty body. Two approvers of different principals sign it, or the root; one of them signs a withdrawal.
 */
#pragma once

#include "documents/format/claim_match.h"
#include "documents/format/document.h"

#define GROUP_ROLES_NAME_MAX   63
#define GROUP_ROLES_DAYS_MAX   366
#define GROUP_ROLES_BYTES_MAX  ((size_t)16 * 1024)
#define GROUP_ROLES_GRANTS_MAX 64
#define GROUP_ROLES_SCIM       "scim" /* in place of a claim */
#define GROUP_NAME_MAX         128    /* bytes; Entra ID has 36, LDAP's distinguished names about 100 */

struct group_grant {
    const char *group; /* exactly as the issuer writes it */
    const char *role, *on;
};

/** Views into the document, which must stay. */
struct group_roles {
    const char *issuer; /* exactly `iss` */
    const char *claim;  /* JSON Pointer of the groups in its tokens */
    bool
        is_provisioned; /* the claim is GROUP_ROLES_SCIM: the groups are those that SCIM provisions, by id or externalId (docs/scim.md) */
    char separator; /* between the groups of a claim that is one text; '\0': such a text is one group */
    size_t grant_count;
    struct group_grant grants[GROUP_ROLES_GRANTS_MAX];
};

/** Reads the body of a document of this kind that is no withdrawal. ERROR_INVALID says what is wrong. */
RESULT group_roles_read(const struct document *document, struct group_roles *roles_out, struct error *err);

/** Whether the claim names the group: it is this text, or a list that has it, also a list in one text. `claims` is the payload of a token whose signature was verified. */
bool group_roles_has(const struct group_roles *roles, const json_t *claims, const char *group);
