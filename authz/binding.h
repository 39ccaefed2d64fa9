/*
 * authz/binding.h -- giving and taking roles.
 *
 * The decider has judged who may give what to whom (authz/snapshot.h); the change checks again what a decision can't
 * see: that the robot is live and of this organisation, and that nobody's bindings grow without bound.
 */
#pragma once

#include "audit/sequencer.h"
#include "authz/snapshot.h"

/** Statements of the functions and changes below, for pg_open() and struct sequencer_options. */
extern const struct pg_table binding_table;

/**
 * Gives a role under a permit for ACTION_BINDING_CREATE on the scope. binding_create_init() draws the id; scope,
 * organisation, project and pattern are taken from the permit. ERROR_CONFLICT if it is given already,
 * ERROR_NOT_FOUND for a robot that is not there or another organisation's, ERROR_DENIED to oneself.
 */
struct binding_create {
    struct change change;         /* points into what follows: don't copy it */
    struct authz_binding binding; /* set kind, robot or issuer and subject, role, granted_by; the change sets expires_ms and giver */
    int64_t lifetime_s;           /* 0: without end */
    char detail[RESOURCE_DETAIL_MAX + 1 + UUID_TEXT_SIZE]; /* what the event says: that of the decision, and the id */
};
void binding_create_init(struct binding_create *create, const struct authz_binding *binding, int64_t lifetime_s);
/** What the change does, inside the caller's transaction. */
RESULT binding_insert(const struct permit *permit, struct pg *pg, struct binding_create *create, struct error *err)
    __attribute__((nonnull));

/** Takes a role, under ACTION_BINDING_REVOKE on the binding's own scope, with its id as the detail. */
struct binding_revoke {
    struct change change;
    struct uuid binding;
};
void binding_revoke_init(struct binding_revoke *revoke, const struct uuid *binding);

/** A row for people: names beside ids. */
struct binding_row {
    struct authz_binding binding;
    char robot[ROBOT_NAME_SIZE];            /* its name; "" for external principals */
    char on[RESOURCE_NAME_MAX + 1];         /* "acme", "acme/models", the pattern, or "" for the registry */
    int64_t created_ms;
};
struct binding_page {
    struct binding_row *rows;
    size_t count;
};
#define BINDING_PAGE_MAX 1001 /* a page of the API, and one more to see whether more follow */
/**
 * Live bindings inside the scope that the permit for ACTION_BINDING_READ is for (system, organisation or project), by id, the next
 * `limit` (at most BINDING_PAGE_MAX) after `after` (NULL: from the first). The caller frees page_out->rows with free().
 */
RESULT binding_list(const struct permit *permit, struct pg *pg, const struct uuid *after, size_t limit,
                    struct binding_page *page_out, struct error *err) __attribute__((nonnull(1, 2, 5, 6)));
/** The row that was made under this permit for ACTION_BINDING_CREATE. ERROR_NOT_FOUND when it was revoked since. */
RESULT binding_find(const struct permit *permit, struct pg *pg, const struct uuid *id, struct binding_row *row_out,
                    struct error *err) __attribute__((nonnull));
/** The scope of a row as a resource, for the decision about revoking it; its detail is the id. */
void binding_scope(const struct binding_row *row, struct resource *resource_out);

/** A repository's full name, or its project's and "/" and an asterisk: what a binding on repositories may say. */
bool binding_is_pattern(const char *text);
