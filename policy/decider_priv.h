/*
 * policy/decider_priv.h -- the decider's own: the snapshot in use, and the thread that renews it.
 */
#pragma once

#include <pthread.h>

#include "authz/snapshot.h"
#include "policy/decider.h"
#include "policy/snapshot_priv.h"

struct decider {
    struct policy_set_source source;       /* of the loader's thread alone, and so is `told` */
    struct strange_sets told;
    bool is_behind_told;                   /* also the loader's */
    void (*notice)(const char *what, const struct error *why);
    struct authz_directory *directory;
    unsigned poll_ms, stale_ms;
    char metadata_region[REGION_ID_MAX + 1]; /* "": the home region */

    pthread_mutex_t lock;                  /* never held over I/O; guards what follows */
    pthread_cond_t loaded;
    struct snapshot *snapshot;
    struct error problem;                  /* of the last load; ERROR_NONE if it succeeded */
    uint64_t least;                        /* the newest epoch that decider_await_newer() was told of */
    uint64_t wanted, done;                 /* loads that decider_refresh() asked for, and that were made */
    bool is_stopping;

    pthread_t thread;
    bool has_thread;
    int wake;                              /* eventfd: something is wanted */
};

/** One more owner of the snapshot in use; never NULL once the decider has started. */
struct snapshot *decider_take(struct decider *decider);
bool decider_is_stale(const struct decider *decider, struct snapshot *snapshot);

/** What one decision is made of (judge.c). */
struct judge {
    const struct snapshot *snapshot;
    const struct decision_request *request;
    const char *metadata_region;
    bool is_stale;
};
RESULT judge_request(const struct judge *judge, struct decision **decision_out, struct error *err);
struct policy_decision;
/** Policies alone, of one operation on the repository `name` by nobody in particular; whether or not it is there. */
RESULT judge_place(const struct judge *judge, const char *name, enum policy_operation op, struct policy_decision **decision_out,
                   struct error *err);
RESULT judge_keeping(const struct judge *judge, const char *name, struct policy_keeping *keeping_out, struct error *err);
/** Policies alone, of the operation `list` on the repository `name`. What is too large to be judged may not be listed. */
RESULT judge_listing(const struct judge *judge, const char *name, bool *may_out, struct error *err);
