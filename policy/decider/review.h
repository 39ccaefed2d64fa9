/*
 * policy/decider/review.h -- all roles inside a scope, for a review of access (docs/identity.md, "A review of access").
 *
 * Rule: the permit is for access.review on the registry, an organisation or a project.
 */
#pragma once

#include "audit/permit.h"
#include "policy/decider/decider.h"

/** A role that somebody has, by a binding or a signed document. */
struct reviewed_role {
    struct uuid id;                      /* of a role by a document: always the same for the same version of the document */
    struct authz_binding binding;        /* a copy */
    const char *bound_as;                /* as struct held_role has it */
    struct principal principal;          /* kind, id, issuer and subject */
    struct person person;                /* that it counts as; "": nobody, or several */
    struct resource scope;               /* of a path: its name ends in "/" and an asterisk */
    char granted_by[PRINCIPAL_KEY_SIZE]; /* of a binding; else "" */
    char document
        [TRUST_KEY_SIZE]; /* the key of a trust rule, or the name of roles of groups or of a broken glass; of a binding that of the officer, or "" */
    const char *origin;  /* "binding", "rule", "group" or "break-glass" */
    int64_t granted_ms;  /* of a document: since when it is in force; of a binding 0: binding_since() has it */
    int64_t expires_ms;  /* 0: without end */
    bool is_deactivated; /* SCIM has deactivated the person, so the role gives nothing */
};
struct reviewed_page {
    size_t count;
    bool has_more, demands_officers; /* bindings alone give no role of administrators and officers */
    struct reviewed_role *roles;     /* by id; the caller frees them */
};
/** The next `limit` roles after the id `after` (nil: from the first). ERROR_UNAVAILABLE while rights are not known. */
RESULT decider_review(const struct permit *permit, struct decider *decider, const struct uuid *after, size_t limit,
                      struct reviewed_page *page_out, struct error *err) __attribute__((nonnull));
