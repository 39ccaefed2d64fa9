/*
 * authz/snapshot_priv.h -- how a snapshot lies in memory; for authz/snapshot*.c alone.
 */
#pragma once

#include "authz/rights_part_priv.h"

/** Issuers change seldom and keys take long to read, so snapshots share them as they share parts. */
struct issuer_list {
    atomic_uint owners;
    struct issuer **issuers;
    size_t count, bad_count;
};

struct authz_snapshot {
    atomic_uint owners;
    struct authz_snapshot *self; /* so that who has it as const may count himself in */
    struct rights_part **parts;  /* sorted by organisation; the registry's is the first, and always there */
    size_t part_count;
    struct issuer_list *issuers;
    struct index_table robot_by_id, robot_by_name; /* entry: number of the part << 32 | of the robot in it */
};

/** Of an organisation, nil: the registry; NULL if it has neither robots nor bindings. */
const struct rights_part *snapshot_part(const struct authz_snapshot *snapshot, const struct uuid *organisation);

/** One after the other: the registry's part, and that of the organisation if it has one. False at the end; begin with *at = 0. */
bool snapshot_next_part(const struct authz_snapshot *snapshot, const struct uuid *organisation, unsigned *at,
                        const struct rights_part **part_out);

RESULT issuer_list_new(const struct authz_parts *parts, struct issuer_list **list_out, struct error *err);
void issuer_list_free(struct issuer_list *list);
DEFINE_OWNED(issuer_list);

/** Takes over the parts, which are sorted and begin with the registry's, also when it fails; keeps the issuers once more. */
RESULT snapshot_assemble(struct rights_part **parts, size_t count, struct issuer_list *issuers,
                         struct authz_snapshot **snapshot_out, struct error *err);

/** From the parts of `before` (NULL: none), but for the organisations of `change`, of which `rows` has all that there is now. */
RESULT snapshot_build(const struct authz_snapshot *before, const struct rights_change *change,
                      const struct authz_parts *rows, struct authz_snapshot **snapshot_out, struct error *err);

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
/** For a new secret: whoever sees it is the robot, so each role that the robot has must be the principal's to give. */
const struct authz_refusal *rotation_refusal(const struct authz_snapshot *snapshot, const struct principal *principal,
                                             const struct resource *resource, int64_t now_ms);
const struct authz_refusal *grant_refusal(const struct authz_snapshot *snapshot, const struct principal *principal,
                                          enum role held, const struct resource *resource, int64_t now_ms);
