/*
 * runner/serve/serve.h -- `sijil-runner serve`: asks a registry for runs, and runs them, until it is told to stop.
 *
 * One process keeps the journal of leases and knows what is free. It reads no byte of the network: its workers do. At any time at most one
 * worker asks for a run; when it has one, it becomes the worker of that run, and another one asks. A worker dies with the serving
 * process, and the program in the sandbox with its worker.
 *
 * On a node of a cluster it asks only for the run that a scheduler's job names, while that job lasts (runner/jobs/job.h).
 */
#pragma once

#include <signal.h>

#include "runner/attend/attend.h"
#include "runner/sandbox/sandbox.h"
#include "runner/state/runner_state.h"

#define SERVE_PARALLEL_MAX 64

struct serve_options {
    struct runner_state *state;
    const char *work, *user, *inside, *cgroup, *nvml,
        *devices;                    /* as for a run (runner/sandbox/sandbox.h, runner/devices/devices.h) */
    enum isolation isolation;        /* of this machine */
    unsigned parallel;               /* runs at a time */
    int64_t cpus, memory_bytes;      /* for all runs together */
    int64_t image_bytes;             /* of one image */
    int64_t image_cache_bytes;       /* of blobs of images that are kept between runs; 0: none */
    struct run_limits most;          /* of one run */
    const char *jobs;                /* the socket for a scheduler's jobs: asks only for runs of the jobs; NULL: asks by itself */
    uid_t jobs_user;                 /* whose jobs are heard, besides root's and this user's */
    const struct attend_place *pods; /* runs go to pods of a Kubernetes cluster; NULL: to sandboxes of this machine */
    const char *
        tunnel_listen; /* the IP address where runners of other nodes reach this one; NULL: it takes no node of a run with several */
    unsigned tunnel_port;               /* the first of as many ports as runs at a time */
    const char *tunnel_address;         /* as others reach it */
    int64_t drain_ms;                   /* after the request to stop: how long runs may go on */
    const volatile sig_atomic_t *stops; /* the request to stop, when it is not 0 */
};

enum serve_end {
    SERVE_STOPPED,   /* as asked; all runs have ended */
    SERVE_KILLED,    /* as asked; a run had to be killed */
    SERVE_SUSPENDED, /* the registry has suspended the runner's key */
};

/**
 * Logs what it does (base/log.h). Ends leases that an earlier process left. ERROR_CONFLICT: another process serves from the same folder;
 * ERROR_CORRUPT: the journal is damaged; ERROR_DENIED: the machine gives less isolation than the runner was enrolled with, or hides its key less well.
 */
RESULT serve(const struct serve_options *options, enum serve_end *end_out, struct error *err);
