/*
 * authz/binding.h -- grants and revokes roles.
 *
 * The decision has checked that the principal may grant this role (authz/snapshot.h). The change checks what a
 * decision can't see: that the robot is live and belongs to this organisation, and that a principal's bindings have a
 * bounded number.
 */
#pragma once

#include "audit/sequencer.h"
#include "authz/snapshot.h"

/** Statements of the functions and changes below, for pg_open() and struct sequencer_options. */
extern const struct pg_table binding_table;
/** The statements that all changes of robots, bindings and issuers share. */
extern const struct pg_table rights_table;

#define BINDING_IS_THERE "that role is given on that scope already" /* the conflict */

/**
 * Grants a role under a permit for ACTION_BINDING_CREATE on the scope. binding_create_init() generates the id; scope,
 * organisation, project and pattern come from the permit. ERROR_CONFLICT if the principal has the role already,
 * ERROR_NOT_FOUND for a robot that does not exist or belongs to another organisation, ERROR_DENIED if a principal
 * grants a role to itself.
 */
struct binding_create {
    struct change change; /* points into this struct: don't copy it */
    struct authz_binding
        binding; /* set kind, robot or issuer and subject, role, granted_by; the change sets expires_ms and granting_person */
    int64_t lifetime_s;                       /* 0: without end */
    char granter_issuer[256];                 /* of a subject */
    const struct persons_separated *separate; /* in the organisation of the scope, for a security officer; NULL: nobody */
    uint8_t salt[AUTHZ_SALT];                 /* of the subject's digest in the event; it stands in the row */
    char detail[RESOURCE_DETAIL_MAX + 1 + UUID_TEXT_SIZE +
                AUTHZ_TOLD_SIZE]; /* of the event: the detail of the decision, the id, what authz_grant_told() writes */
};
void binding_create_init(struct binding_create *create, const struct authz_binding *binding, int64_t lifetime_s);
/** The body of the change, inside the caller's transaction. */
RESULT binding_insert(const struct permit *permit, struct pg *pg, struct binding_create *create, struct error *err)
    __attribute__((nonnull));

/** Revokes a role, under ACTION_BINDING_REVOKE on the binding's own scope, with its id as the detail. */
struct binding_revoke {
    struct change change;
    struct uuid binding;
    char revoked_by[PRINCIPAL_KEY_SIZE]; /* principal_key() */
};
void binding_revoke_init(struct binding_revoke *revoke, const struct uuid *binding, const struct principal *by);

/** A row with names beside ids, for answers of the API. */
struct binding_row {
    struct authz_binding binding;
    char robot[ROBOT_NAME_SIZE];    /* its name; "" for external principals */
    char on[RESOURCE_NAME_MAX + 1]; /* "acme", "acme/models", the pattern, or "" for the registry */
    int64_t created_ms;
};
struct binding_page {
    struct binding_row *rows;
    size_t count;
};
#define BINDING_PAGE_MAX 1001 /* a page of the API, and one more that tells whether another page follows */
/**
 * The next `limit` (at most BINDING_PAGE_MAX) live bindings after the id `after` (NULL: from the first), in the order
 * of ids, inside the scope of the permit for ACTION_BINDING_READ (system, organisation or project). The caller frees
 * page_out->rows with free().
 */
RESULT binding_list(const struct permit *permit, struct pg *pg, const struct uuid *after, size_t limit,
                    struct binding_page *page_out, struct error *err) __attribute__((nonnull(1, 2, 5, 6)));
/** The row that was created under this permit for ACTION_BINDING_CREATE. ERROR_NOT_FOUND if it has been revoked since. */
RESULT binding_find(const struct permit *permit, struct pg *pg, const struct uuid *id, struct binding_row *row_out,
                    struct error *err) __attribute__((nonnull));

/** Subjects of issuers, searched by the hash with which documents name them (principal_key(), without "ext:"). */
struct subject_query {
    const struct bytes *digests; /* 32 bytes each */
    size_t count;
    RESULT (*take)(void *context, struct bytes digest, const char *issuer, const char *subject, struct error *err);
    void *context;
    enum action action; /* of the permit */
};
/**
 * Calls `take` for each subject that has a live role in the organisation of the permit for `query->action`, or on the registry. The caller
 * has to check that names may be shown.
 */
RESULT binding_subjects(const struct permit *permit, struct pg *pg, const struct subject_query *query, struct error *err)
    __attribute__((nonnull));

struct binding_times {
    void (*take)(void *context, const struct uuid *id, int64_t created_ms);
    void *context;
};
/** When these bindings were made; ids without a binding are left out. The permit is for access.review, and the ids are of decider_review(). */
RESULT binding_since(const struct permit *permit, struct pg *pg, const struct bytes *ids, size_t count,
                     const struct binding_times *times, struct error *err) __attribute__((nonnull));
