/*
 * registry/copies/copies.h -- the further regions of a project that have copies of its content (docs/replication.md).
 *
 * Rule: nothing here moves bytes. A change names a region, or takes it away; the copier (registry/copies/copier.h) does the rest.
 */
#pragma once

#include "crypto/digest.h"
#include "registry/registry.h"

#define COPY_REGIONS_MAX 8 /* of a project */

extern const struct pg_table copy_place_statements, copying_statements, copy_home_statements;

/**
 * A change: the region gets copies of the project's content (project.replicate), or none any more (project.withdraw), or becomes the home as soon as all
 * content is there (project.migrate; project.withdraw ends that before). ERROR_NOT_FOUND: no such project or region, or no copies there; ERROR_CONFLICT: it is the home
 * region, or it has copies already, or there are COPY_REGIONS_MAX, or the project moves already.
 */
struct copy_place_change {
    struct change change;
    struct resource where; /* the project, with the region */
    enum action action;
};
void copy_place_prepare(const struct resource *where, enum action action, struct copy_place_change *change_out);

struct copy_place {
    char region[REGION_ID_MAX + 1];
    bool is_withdrawn;                                   /* copies that are left go */
    char move[8];                                        /* "to": it becomes the home; "from": it was; "" */
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
    X(COPIES_HELD, "held")               /* an old home: something demands that it stays */        \
    X(COPIES_WITHDRAWING, "withdrawing")
/** The regions of the permit's project (project.read), by name. *count_out is at most COPY_REGIONS_MAX; withdrawn ones that still have copies may be left out beyond that. */
RESULT copy_place_list(const struct permit *permit, struct pg *pg, struct copy_place places_out[COPY_REGIONS_MAX],
                       size_t *count_out, struct error *err) __attribute__((nonnull));

/* ---- What a move of the home would do ---- */

#define MOVE_DENIALS_MAX 100   /* that a plan names; the others are counted */
#define MOVE_BLOBS_MAX   20000 /* that a plan decides; beyond that it says that it is cut */
#define MOVE_LINKS_MAX   50000 /* of blobs and repositories, likewise */

struct decider;
struct move_denial {
    char digest[DIGEST_TEXT_SIZE]; /* "": the project itself */
    char name[RESOURCE_NAME_MAX + 1];
    char rule[72];
};
struct move_plan {
    char from[REGION_ID_MAX + 1], to[REGION_ID_MAX + 1];
    uint64_t blobs, bytes, manifests; /* that move */
    uint64_t denied_blobs, damaged_blobs,
        crowded_blobs; /* that a policy keeps out, that do not verify, that are in too many repositories: each stops the move */
    uint64_t runs;     /* that have not ended: the move waits for them */
    uint64_t uploads;  /* that are open now: what has not ended when the home changes begins anew */
    uint64_t holds;    /* legal holds: as long as they are in force, the old home keeps its copies */
    bool has_room;     /* the quota has, for both at once */
    bool is_cut;       /* there are more than MOVE_BLOBS_MAX or MOVE_LINKS_MAX: the rest was not decided */
    size_t denial_count;
    struct move_denial denials[MOVE_DENIALS_MAX];
};
/** Of the permit's project (project.read), as the mover would decide now. *plan_out is freed with free(). ERROR_CONFLICT: `to` is the home. */
RESULT move_plan_make(const struct permit *permit, struct decider *decider, struct pg *pg, const char *to,
                      struct move_plan **plan_out, struct error *err) __attribute__((nonnull));
