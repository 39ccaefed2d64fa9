/*
 * authz/rights_part_priv.h -- the robots and bindings of one organisation, or of the registry itself: one part of a snapshot.
 *
 * Immutable and shared: snapshots of different moments hold the same part for as long as nothing in its organisation
 * changes. So what one organisation changes costs the others nothing.
 */
#pragma once

#include <stdatomic.h>

#include "authz/snapshot.h"
#include "crypto/hmac.h"

/* Open addressing with twice as many places as entries, so that a lookup is one or two steps. */
struct index_table {
    size_t mask;      /* places - 1; places are a power of two */
    uint64_t *places; /* entry + 1, or 0 */
};

struct rights_part {
    atomic_uint owners;
    struct uuid organisation;        /* nil: of the registry */
    struct authz_robot *robots;
    size_t robot_count;
    struct authz_binding *bindings;  /* sorted by principal, so that one principal's stand together */
    size_t binding_count;
    struct index_table binding_by_id, first_binding_of;
};

/** Strangers choose names of robots and subjects: the hash has a key of this process. */
uint64_t rights_hash(struct bytes name);
/** ERROR_NO_MEMORY; the places are freed by who has the table. */
RESULT index_new(size_t count, struct index_table *table, struct error *err);
void index_add(struct index_table *table, uint64_t hash, uint64_t entry);
/** The next entry + 1 at or after *at (begin with the hash) that may be the one; 0 at the end. */
uint64_t index_next(const struct index_table *table, uint64_t *at);

/** What of `parts` is of this organisation, all of it given side by side; it is copied. ERROR_CORRUPT for a binding that is there twice. */
RESULT rights_part_new(const struct uuid *organisation, const struct authz_parts *parts, struct rights_part **part_out,
                struct error *err);
struct rights_part *rights_part_keep(struct rights_part *part);
void rights_part_free(struct rights_part *part);
DEFINE_OWNED(rights_part);

/** All bindings of a principal in it: a run of `count` from the returned one; NULL if there are none. */
const struct authz_binding *part_bindings_of(const struct rights_part *part, const struct principal *principal,
                                             size_t *count_out);
const struct authz_binding *part_binding(const struct rights_part *part, const struct uuid *id);
