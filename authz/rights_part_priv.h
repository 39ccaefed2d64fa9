/*
 * authz/rights_part_priv.h -- the robots and bindings of one organisation, or of the registry itself: one part of a
 * snapshot.
 *
 * Immutable and shared: successive snapshots hold the same part until something in its organisation changes. So a
 * change in one organisation costs the others nothing.
 */
#pragma once

#include <stdatomic.h>

#include "authz/snapshot.h"
#include "crypto/hmac.h"

/* Open addressing with twice as many slots as entries, so that a lookup is one or two steps. */
struct index_table {
    size_t mask;     /* slots - 1; slots are a power of two */
    uint64_t *slots; /* entry + 1, or 0 */
};

struct rights_part {
    atomic_uint owners;
    struct uuid organisation; /* nil: of the registry */
    struct authz_robot *robots;
    size_t robot_count;
    struct authz_binding *bindings;                                   /* sorted by principal */
    size_t binding_count, endless_count;                              /* endless: of these, without an end */
    struct index_table binding_by_id, first_binding_of, first_of_key; /* of_key: by principal_key(), subjects of issuers only */
};

/** Other parties choose names of robots and subjects, so the hash is keyed with a random key of this process. */
uint64_t rights_hash(struct bytes name);
/** ERROR_NO_MEMORY. The owner of the table frees its slots. */
RESULT index_new(size_t count, struct index_table *table, struct error *err);
void index_add(struct index_table *table, uint64_t hash, uint64_t entry);
/** The next candidate, as entry + 1, at or after *at (begin with the hash); 0 at the end. */
uint64_t index_next(const struct index_table *table, uint64_t *at);

/** Copies the rows of this organisation, which must be adjacent in `parts`. ERROR_CORRUPT for a duplicate binding. */
RESULT rights_part_new(const struct uuid *organisation, const struct authz_parts *parts, struct rights_part **part_out,
                       struct error *err);
struct rights_part *rights_part_keep(struct rights_part *part);
void rights_part_free(struct rights_part *part);
DEFINE_OWNED(rights_part);

/** All bindings of a principal in this part: an array of *count_out; NULL if there are none. */
const struct authz_binding *part_bindings_of(const struct rights_part *part, const struct principal *principal,
                                             size_t *count_out);
/** The first binding of the subject of an issuer that has this principal_key(); NULL: it has none in this part. */
const struct authz_binding *part_binding_of_key(const struct rights_part *part, const char *key);
const struct authz_binding *part_binding(const struct rights_part *part, const struct uuid *id);
