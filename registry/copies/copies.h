/*
 * registry/copies/copies.h -- the further regions of a project that have copies of its content (docs/replication.md).
 *
 * Rule: nothing here moves bytes. A change names a region, or takes it away; the copier (registry/copies/copier.h) does the rest.
 */
#pragma once

#include "registry/registry.h"

#define COPY_REGIONS_MAX 8 /* of a project */

extern const struct pg_table copy_place_statements, copying_statements;

/**
 * A change: the region gets copies of the project's content (project.replicate), or none any more (project.withdraw). ERROR_NOT_FOUND: no such project or
 * region, or no copies there; ERROR_CONFLICT: it is the home region, or it has copies already, or there are COPY_REGIONS_MAX.
 */
struct copy_place_change {
    struct change change;
    struct resource where; /* the project, with the region */
    bool is_withdrawal;
};
void copy_place_prepare(const struct resource *where, bool is_withdrawal, struct copy_place_change *change_out);

struct copy_place {
    char region[REGION_ID_MAX + 1];
    bool is_withdrawn;                                   /* copies that are left go */
    char state[24];                                      /* COPY_STATES */
    char why[304];                                       /* a sentence; "" if all is well */
    uint64_t blobs, bytes;                               /* copies that are there */
    uint64_t waiting_blobs, waiting_bytes, denied_blobs; /* as the last round found them */
    int64_t waiting_since_ms, looked_ms;                 /* wall; 0: none */
};
/** What a round found. X(constant, name) */
#define COPY_STATES(X)                                                                             \
    X(COPIES_NEW, "new")                 /* nobody has looked yet */                               \
    X(COPIES_CURRENT, "current")         /* all that may be there is there */                      \
    X(COPIES_COPYING, "copying")         /* some are missing, and nothing stands against them */   \
    X(COPIES_DENIED, "denied")           /* a policy lets some of them not in */                   \
    X(COPIES_CLOSED, "closed")           /* a region drains, is quarantined or retired */          \
    X(COPIES_UNREACHABLE, "unreachable") /* a store, sijil-keyd or the log does not answer */      \
    X(COPIES_FULL, "full")               /* the quota of the project, or the store, has no room */ \
    X(COPIES_DAMAGED, "damaged")         /* what is read does not verify */                        \
    X(COPIES_WITHDRAWING, "withdrawing")
/** The regions of the permit's project (project.read), by name. *count_out is at most COPY_REGIONS_MAX; withdrawn ones that still have copies may be left out beyond that. */
RESULT copy_place_list(const struct permit *permit, struct pg *pg, struct copy_place places_out[COPY_REGIONS_MAX],
                       size_t *count_out, struct error *err) __attribute__((nonnull));
