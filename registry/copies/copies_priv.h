/* registry/copies/copies_priv.h -- a round of the copier. */
#pragma once

#include "policy/decider/copies.h"
#include "policy/decider/copy_decision.h"
#include "registry/copies/copier.h"
#include "registry/copies/copying_store.h"

enum copy_state {
#define X(constant, name) constant,
    COPY_STATES(X)
#undef X
        COPY_STATE_COUNT
};

/** A project and a region that this gateway works on. */
struct copy_claim {
    struct copy_way way;
    bool is_withdrawn;         /* by a person, or because the project is deleted */
    bool is_deleted;           /* the project is */
    bool was_home;             /* way.to was the home before: what is there goes as soon as nothing refers to it */
    bool is_home_served;       /* by this gateway */
    bool is_home_reached;      /* or, but for a move, fetched from the gateway that serves it; else no copy is made */
    uint64_t reviewed_version; /* decider_copies_version() at which all copies were decided again */
    int64_t reviewed_age_s;    /* since then */
};

struct copy_round {
    struct registry *registry;
    struct pg *pg;
    const struct copier_options *options;
    struct copy_claim claim;
    int64_t began_ms;
    int64_t renewed_ms;     /* monotonic: the claim */
    uint64_t renewed_epoch; /* the authorization epoch then */
    bool is_cut;            /* it lasted long enough: what is missing waits for the next one */
    bool is_lost;           /* another gateway has it */
    bool is_reviewed;       /* all copies were decided at review_version */
    uint64_t review_version;
    /* What was found. */
    enum copy_state state;
    char why[304];
    uint64_t waiting_blobs, waiting_bytes, denied_blobs;
    int64_t waiting_since_ms; /* wall; 0: nothing waits */
};
/** Notes what stands against a copy; the first reason stays. */
void copy_note(struct copy_round *round, enum copy_state state, const char *why);
/** The same for a failure. */
void copy_note_failure(struct copy_round *round, const struct error *why);
/** The round has lasted long enough: what is left waits for the next one, after those of other projects and regions. */
bool copy_is_late(struct copy_round *round);
/** Keeps the claim. False: stop now, because the gateway ends or the claim is lost. */
bool copy_go_on(struct copy_round *round);
/** copy.write, or move.write. */
enum action copy_action(const struct copy_way *way);
/** The repository of a link, with a region and the digest. */
struct resource copy_where(const struct copy_way *way, const struct copy_link *link, const char *region, const char *digest);
/** Of the digest in `where`, which it borrows, at this moment. */
struct copy_question copy_question_of(const struct copy_way *way, const struct resource *where);

/** Decides all copies again, and withdraws what may not stay. Errors end the round. */
RESULT copy_review(struct copy_round *round, struct error *err);
/**
 * Copies one blob, if it may be there. *done_out: it is. Success also if it may not, or something stands against it, which is noted. Errors end the
 * round.
 */
RESULT copy_move(struct copy_round *round, const struct copy_item *item, bool *done_out, struct error *err);
/** Submits a decision, and makes it again with newer rights if it is stale. *permit_out stays NULL if it denies; then `rule` has the reason. */
RESULT copy_decide(struct copy_round *round, const struct copy_question *question, struct change *change,
                   struct permit **permit_out, uint64_t *epoch_out, struct error *err);

/**
 * All content is in the region that becomes the home: it is decided once more, and then it is the home. Nothing happens, and the reason is noted, if something is missing
 * or is denied, or a run goes on.
 */
RESULT copy_home_change(struct copy_round *round, struct error *err);
/** Seals the manifests of an old home under the key of the new one. *may_leave_out: nothing refers to the old home, and no hold or duty keeps it; else the reason is noted. */
RESULT copy_home_leave(struct copy_round *round, bool *may_leave_out, struct error *err);
/** The last copy in an old home is gone: its key of manifests goes, and the row. */
RESULT copy_home_end(struct copy_round *round, struct error *err);

/* ---- copy_home_store.c ---- */
/** What stands against a change of the home. */
struct home_pending {
    uint64_t blobs, links, runs;
};
RESULT copy_home_pending(struct pg *pg, const struct copy_way *way, struct home_pending *pending_out, struct error *err);
/** For changes: way->to is the home. ERROR_CONFLICT: something is missing there, or a run goes on, or nobody wants it any more. */
RESULT copy_home_set(struct pg *pg, const struct copy_way *way, const struct key_record *key, struct error *err);

enum sealed_table {
    SEALED_MANIFESTS,
    SEALED_CHECKPOINTS,
    SEALED_HELD, /* results of runs */
    SEALED_TABLES
};
/** A manifest that is sealed under a key of an old home. The caller frees `sealed`. */
struct home_sealed {
    enum sealed_table table;
    struct uuid owner; /* the repository, or the run: with the digest it names the row */
    struct copy_link link;
    char digest[DIGEST_TEXT_SIZE];
    struct key_record key;
    struct buffer sealed;
};
/** The first one of the table after (owner, digest). *found_out is false if there is none. */
RESULT copy_home_sealed_next(struct pg *pg, const struct copy_way *way, const struct home_sealed *after,
                             struct home_sealed *sealed_out, bool *found_out, struct error *err);
/** For changes. ERROR_CONFLICT: it is gone, or under another key. */
RESULT copy_home_reseal(struct pg *pg, const struct home_sealed *item, const struct uuid *key, struct bytes sealed,
                        struct error *err);
/** Legal holds in force over the project or a part of it. */
RESULT copy_home_holds(struct pg *pg, const struct uuid *project, uint64_t *holds_out, struct error *err);
/** A repository with manifests, by name, after `after`; "" in name_out: there is none. */
RESULT copy_home_repository(struct pg *pg, const struct uuid *project, const char *after, char name_out[RESOURCE_NAME_MAX + 1],
                            struct error *err);
/** The home, and further regions that lack nothing. */
RESULT copy_home_regions(struct pg *pg, const struct uuid *project, struct placed_region regions_out[COPY_REGIONS_MAX + 1],
                         size_t *count_out, struct error *err);
/** Whether neither blobs nor manifests need the old home. */
RESULT copy_home_is_empty(struct pg *pg, const struct copy_way *way, bool *is_empty_out, struct error *err);
/** For changes: keys of manifests and the row of the old home go. ERROR_CONFLICT: something is left. */
RESULT copy_home_forget(struct pg *pg, const struct copy_way *way, struct error *err);
/** Counts of a plan; the blobs follow. */
RESULT copy_home_count(struct pg *pg, const struct uuid *project, struct move_plan *plan, struct error *err);
/** A blob and one of its repositories, by digest and name. */
struct home_link {
    char digest[DIGEST_TEXT_SIZE];
    char name[RESOURCE_NAME_MAX + 1];
    struct uuid repository;
    uint64_t bytes;
    int64_t links; /* COPY_LINKS_MAX + 1: as many, or more */
    bool is_damaged;
};
#define HOME_PAGE_MAX 500
/** Of those at home, after `after`; at most HOME_PAGE_MAX. */
RESULT copy_home_links(struct pg *pg, const struct copy_way *way, const struct home_link *after, struct home_link *links_out,
                       size_t *count_out, struct error *err);

/* ---- copy_place_store.c ---- */
struct copy_served {
    size_t count, reached_count;
    struct bytes ids[REGISTRY_REGIONS_MAX];
    struct bytes reached[REGISTRY_REGIONS_MAX + PEERS_MAX]; /* these, and those that are fetched from */
};
/** *found_out is false, and nothing claimed, if nothing is due. */
RESULT copy_place_claim(struct pg *pg, const struct copy_served *served, const char *instance, struct copy_claim *claim_out,
                        bool *found_out, struct error *err);
/** ERROR_CONFLICT: it is lost, or a person has withdrawn the copies since. */
RESULT copy_place_renew(struct pg *pg, const struct copy_claim *claim, const char *instance, struct error *err);
/** Ends the claim, and stores what was found. */
RESULT copy_place_release(const struct copy_round *round, unsigned pause_ms, struct error *err);
/** Removes the row of a withdrawn region, if it has no copies any more. */
RESULT copy_place_remove(struct pg *pg, const struct copy_way *way, struct error *err);
/** What waits for one region. */
struct copy_count {
    char region[REGION_ID_MAX + 1];
    uint64_t waiting_blobs, waiting_bytes, denied_blobs;
    int64_t lag_s;
};
RESULT copy_place_count(struct pg *pg, struct copy_count *counts_out, size_t capacity, size_t *count_out, struct error *err);
