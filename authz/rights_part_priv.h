/*
 * authz/rights_part_priv.h -- the robots and bindings of one organisation, or of the registry itself: one part of a
 * snapshot.
 *
 * Immutable and shared: successive snapshots hold the same part until something in its organisation changes. So a
 * change in one organisation costs the others nothing. Where single roles were given or taken, the next part shares the robots and all
 * buckets but theirs, so the change costs the same in a large organisation as in a small one.
 */
#pragma once

#include "authz/rights_bucket_priv.h"

#define RIGHTS_BUCKET_SIZE  64  /* bindings in a bucket of a new part, about */
#define RIGHTS_BUCKET_GROWN 256 /* in the middle: then there are more buckets */

/* The robots of a part, as long as one needs them. */
struct robot_rows {
    atomic_uint owners;
    size_t count;
    struct authz_robot *robots;
};

struct rights_part {
    atomic_uint owners;
    struct uuid organisation; /* nil: of the registry */
    struct robot_rows *rows;
    const struct authz_robot *robots; /* of `rows` */
    size_t robot_count;
    struct rights_bucket **buckets; /* by the hash of the principal */
    size_t bucket_count;            /* a power of two */
    size_t binding_count;           /* in all of them */
    size_t endless_count;           /* of these, without an end */
    size_t unsigned_count;          /* of these, of officers without a document */
};

/** Copies the rows of this organisation, which must be adjacent in `parts`. ERROR_CORRUPT for a duplicate binding. */
RESULT rights_part_new(const struct uuid *organisation, const struct authz_parts *parts, struct rights_part **part_out,
                       struct error *err);

/** A role that was given or taken. */
struct binding_change {
    struct authz_binding binding;
    bool is_gone;
};
/** The part after these changes, all of its organisation, with at most one for each binding. Roles that have expired are left out of what is made anew. */
RESULT rights_part_renew(const struct rights_part *before, const struct binding_change *changes, size_t count,
                         struct rights_part **part_out, struct error *err);

struct rights_part *rights_part_keep(struct rights_part *part);
void rights_part_free(struct rights_part *part);
DEFINE_OWNED(rights_part);

/** All bindings of a principal in this part: an array of *count_out; NULL if there are none. */
const struct authz_binding *part_bindings_of(const struct rights_part *part, const struct principal *principal,
                                             size_t *count_out);
/** The first binding of the subject of an issuer that has this principal_key(); NULL: it has none in this part. */
const struct authz_binding *part_binding_of_key(const struct rights_part *part, const char *key);
/** Looks at all buckets, so that the time does not tell whether the binding exists. */
const struct authz_binding *part_binding(const struct rights_part *part, const struct uuid *id);

/** Where a walk through all bindings is; begin with zeros. */
struct part_walk {
    size_t bucket, at;
};
/** The next one, in no order that means anything; NULL at the end. */
const struct authz_binding *part_next_binding(const struct rights_part *part, struct part_walk *walk);
