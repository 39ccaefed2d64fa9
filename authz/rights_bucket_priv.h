/*
 * authz/rights_bucket_priv.h -- the bindings of some principals in one organisation: one of the buckets of a part.
 *
 * Immutable and shared: a change of one principal's bindings makes one bucket anew, and all others stay.
 */
#pragma once

#include <stdatomic.h>

#include "authz/snapshot.h"

/* Open addressing with twice as many slots as entries, so that a lookup is one or two steps. */
struct index_table {
    size_t mask;     /* slots - 1; slots are a power of two */
    uint64_t *slots; /* entry + 1, or 0 */
};

struct rights_bucket {
    atomic_uint owners;
    struct authz_binding *bindings;                   /* sorted by principal */
    size_t count, endless_count;                      /* endless: of these, without an end */
    size_t unsigned_count;                            /* of these, of officers without a document */
    struct index_table by_id, first_of, first_of_key; /* of_key: by principal_key(), subjects of issuers only */
};

/** Other parties choose names of robots and subjects, so the hash is keyed with a random key of this process. */
uint64_t rights_hash(struct bytes name);
/** Of the principal that has the binding, and of a principal. */
uint64_t rights_hash_grantee(const struct authz_binding *binding);
uint64_t rights_hash_principal(const struct principal *principal);
/** ERROR_NO_MEMORY. The owner of the table frees its slots. */
RESULT index_new(size_t count, struct index_table *table, struct error *err);
void index_add(struct index_table *table, uint64_t hash, uint64_t entry);
/** The next candidate, as entry + 1, at or after *at (begin with the hash); 0 at the end. */
uint64_t index_next(const struct index_table *table, uint64_t *at);

/** Takes the ownership of `bindings`, which it sorts, also on failure. ERROR_CORRUPT for a duplicate binding or an unknown role. */
RESULT rights_bucket_new(struct authz_binding *bindings, size_t count, struct rights_bucket **bucket_out, struct error *err);
struct rights_bucket *rights_bucket_keep(struct rights_bucket *bucket);
void rights_bucket_free(struct rights_bucket *bucket);
DEFINE_OWNED(rights_bucket);

/* What is looked for comes with its hash, because a caller that looks through many buckets makes it once. */

/** All bindings of a principal in this bucket: an array of *count_out; NULL if there are none. */
const struct authz_binding *bucket_bindings_of(const struct rights_bucket *bucket, const struct principal *principal,
                                               uint64_t hash, size_t *count_out);
/** The first binding of the subject of an issuer that has this principal_key(); NULL: it has none here. */
const struct authz_binding *bucket_binding_of_key(const struct rights_bucket *bucket, const char *key, uint64_t hash);
const struct authz_binding *bucket_binding(const struct rights_bucket *bucket, const struct uuid *id, uint64_t hash);
