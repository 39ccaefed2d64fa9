/*
 * authz/snapshot_priv.h -- how a snapshot lies in memory; for authz/snapshot*.c alone.
 */
#pragma once

#include <stdatomic.h>

#include "authz/snapshot.h"

/* Open addressing with twice as many places as entries, so that a lookup is one or two steps. */
struct index_table {
    size_t mask;         /* places - 1; places are a power of two */
    uint32_t *places;    /* entry + 1, or 0 */
};

struct authz_snapshot {
    atomic_uint owners;
    struct authz_snapshot *self; /* so that who has it as const may count himself in */
    struct authz_robot *robots;
    size_t robot_count;
    struct authz_binding *bindings; /* sorted by principal, so that one principal's stand together */
    size_t binding_count;
    struct issuer **issuers;
    size_t issuer_count, bad_issuer_count;
    struct index_table robot_by_id, robot_by_name, binding_by_id, first_binding_of;
};

/** All bindings of a principal: a run of `count` from the returned one; NULL if there are none. */
const struct authz_binding *snapshot_bindings_of(const struct authz_snapshot *snapshot,
                                                 const struct principal *principal, size_t *count_out);
const struct authz_binding *snapshot_binding(const struct authz_snapshot *snapshot, const struct uuid *id);

/** Does the binding's scope hold the resource? */
bool binding_covers(const struct authz_binding *binding, const struct resource *resource);
/** Is the binding's scope inside the resource (so that its holder knows that the resource is there)? */
bool binding_is_inside(const struct authz_binding *binding, const struct resource *resource);
bool binding_is_live(const struct authz_binding *binding, int64_t now_ms);
/** Do the two name the same principal? */
bool binding_same_principal(const struct authz_binding *a, const struct authz_binding *b);

/** Is granting what the detail says allowed to the holder of `held`? NULL if it is, else the rule that is broken. */
struct authz_refusal {
    const char *rule, *message;
};
const struct authz_refusal *grant_refusal(const struct authz_snapshot *snapshot, const struct principal *principal,
                                          enum role held, const struct resource *resource, int64_t now_ms);
