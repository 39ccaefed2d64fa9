/*
 * runner/schedule/schedule.h -- `sijil-runner serve --slurm`: has a Slurm cluster start a job for each run that waits. It runs nothing itself.
 *
 * Each node of the cluster has a runner of its own (`serve --jobs`), with its own key. A job only tells that runner that it may ask for
 * one run now. So this process takes no lease, and knows no order: the registry tells it opaque ids, sizes and regions.
 *
 * All that counts is at the registry and in the cluster's list of jobs. A killed process leaves nothing behind that the next one needs.
 */
#pragma once

#include <signal.h>

#include "runner/calls/answers.h"
#include "runner/slurm/slurm.h"
#include "runner/state/runner_state.h"

#define SCHEDULE_GRES_MAX 16

struct schedule_options {
    struct runner_state *state;
    struct slurm_options slurm;
    const char *partition; /* NULL: the cluster's default */
    size_t region_count;   /* of the cluster's nodes */
    const char *regions[QUEUE_REGIONS_MAX];
    size_t gres_count;
    const char *gres[SCHEDULE_GRES_MAX]; /* "H200=gpu:h200": the name of Slurm for a type of device; "gpu" for others */
    const char *program, *jobs;          /* on the nodes: sijil-runner, and the socket of the node's runner */
    int64_t extra_s;     /* a job's seconds beyond the program's: code and inputs are fetched, outputs are stored */
    int64_t patience_ms; /* struct plan_view */
    const volatile sig_atomic_t *stops; /* the request to stop, when it is not 0 */
};

/**
 * Logs what it does. Returns when it is told to stop; jobs stay. *suspended_out: the registry has suspended the key. ERROR_CONFLICT: another
 * process uses the folder; ERROR_CORRUPT: its journal is damaged; ERROR_DENIED: the key could do more than schedule; ERROR_INVALID: options.
 */
RESULT schedule(const struct schedule_options *options, bool *suspended_out, struct error *err);
