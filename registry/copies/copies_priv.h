/* registry/copies/copies_priv.h -- a round of the copier. */
#pragma once

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
    bool is_home_served;       /* by this gateway */
    bool is_home_reached;      /* or fetched from the gateway that serves it; else no copy is made */
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
/** Keeps the claim. False: stop now, because the gateway ends or the claim is lost. */
bool copy_go_on(struct copy_round *round);
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
