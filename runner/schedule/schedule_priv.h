/*
 * runner/schedule/schedule_priv.h -- one process that schedules, for the sources of this folder.
 */
#pragma once

#include "runner/calls/calls.h"
#include "runner/order/lease_journal.h"
#include "runner/schedule/plan.h"
#include "runner/schedule/schedule.h"

#define TRACKED_MAX (QUEUE_RUNS_MAX + SLURM_LISTED_MAX)

/** One attempt that is listed by the registry, or has an open job. */
struct tracked {
    char name[SLURM_NAME_SIZE];
    const struct queued_run *run; /* of this round; NULL: the registry does not list it */
    struct slurm_status job;      /* of this round */
    struct plan_memory memory;
};

struct scheduler {
    const struct schedule_options *options;
    struct lease_journal *journal; /* for its generation, and so that one process uses the folder */
    uint8_t session[CALLS_SESSION_SIZE];
    char own[UUID_TEXT_SIZE], prefix[SLURM_NAME_SIZE];
    struct http_options http;
    struct calls *calls; /* NULL until it is connected */
    struct slurm *slurm; /* likewise */
    size_t count;
    struct tracked *tracked; /* TRACKED_MAX */
    bool is_suspended;
    char said[256]; /* the newest failure, which is logged once */
};

/** Asks the registry and the cluster, and does what is due. ERROR_UNAVAILABLE and others: nothing, or not all, was done. */
RESULT scheduler_round(struct scheduler *scheduler, struct error *err);
