/*
 * authz/elevation.h -- a role for some hours, which a person asks for and another person grants (docs/identity.md, "A role for some hours").
 *
 * A request is a row that waits, and gives nothing. Whoever may grant the role grants it by a binding with an end (authz/binding.h), in one transaction with the row. So
 * a decision knows bindings alone, and the end comes at all gateways by their clocks.
 */
#pragma once

#include "authz/binding.h"

/** Statements of the functions and changes below. */
extern const struct pg_table elevation_table;

#define ELEVATION_REASON_MAX    500
#define ELEVATION_HOURS_MAX     72 /* that the setting elevation_hours_max may allow */
#define ELEVATIONS_WAITING_MAX  8  /* of one person, in all organisations */
#define ELEVATION_ROLES_REFUSED "registry-admin, security-officer, break-glass and witness"

/** Whether a role can be had for some hours: not one of those that decide over others' signatures, or that documents alone give. */
bool elevation_takes(const struct authz_binding *wanted);

/** A person asks, under ACTION_ELEVATION_REQUEST on the scope with the role's name as the detail. ERROR_LIMIT: too many of its requests wait. */
struct elevation_request {
    struct change change;
    struct uuid id;
    const struct principal *person;
    const char *role, *reason;
    int64_t hours;
    char detail[RESOURCE_DETAIL_MAX + 1 + UUID_TEXT_SIZE];
};
void elevation_request_init(struct elevation_request *request, const struct resource *scope);

/**
 * Grants what was asked for, under ACTION_BINDING_CREATE as a binding is: `create` is of the same role, person and scope, and `hours` those that were asked for. ERROR_CONFLICT: no
 * such request waits. A row that says otherwise by now gives nothing, so the caller bounds the hours.
 * Contains pointers into itself: don't copy it.
 */
struct elevation_grant {
    struct change change;
    struct binding_create create; /* set granted_by and granter_issuer */
    struct uuid id;
};
void elevation_grant_init(struct elevation_grant *grant, const struct uuid *id, const struct authz_binding *binding,
                          int64_t hours);

/** Ends a request, or the role that it gave, under ACTION_ELEVATION_END on its scope, with the id as the detail. ERROR_NOT_FOUND, also if it is another's. */
struct elevation_end {
    struct change change;
    struct uuid id;
    const struct principal *by;
    const char *role;  /* of the request */
    bool is_of_others; /* `by` may grant the role there, so it may end what others have asked for */
};
void elevation_end_init(struct elevation_end *end, const struct uuid *id, const struct principal *by);

struct elevation_row {
    struct uuid id, binding; /* nil: it was not granted */
    char issuer[256], subject[256];
    char role[OWN_ROLE_NAME_MAX + 1];
    char on[RESOURCE_NAME_MAX + 1];
    char reason[ELEVATION_REASON_MAX + 1];
    const char *state;                 /* "waiting", "granted", "ended" */
    int64_t hours, asked_ms, until_ms; /* of a request that waits, or of the role */
    char decided_by[PRINCIPAL_KEY_SIZE];
};
struct elevation_query {
    const struct principal *own; /* its rows alone; NULL: all */
    const struct uuid *after;
    size_t limit; /* at most ELEVATION_PAGE_MAX */
};
#define ELEVATION_PAGE_MAX 1001
/** By id, inside the scope of the permit for ACTION_ELEVATION_READ. The caller frees *rows_out. */
RESULT elevation_list(const struct permit *permit, struct pg *pg, const struct elevation_query *query,
                      struct elevation_row **rows_out, size_t *count_out, struct error *err) __attribute__((nonnull));
