/*
 * runner/serve/worker.h -- a worker: a process that asks for a run and runs it, or that sends a result again.
 */
#pragma once

#include "runner/calls/calls.h"
#include "runner/image/cache.h"
#include "runner/jobs/wish.h"
#include "runner/serve/channel.h"
#include "runner/serve/serve.h"
#include "runner/serve/verdict.h"

struct worker {
    const struct serve_options *options;
    const struct lease_journal *journal; /* as it was when the worker began */
    uint8_t session[CALLS_SESSION_SIZE];
    int channel, kept;
    const struct image_cache *images; /* NULL: nothing is kept */
    pid_t parent;
    struct job_wish wish; /* of a scheduler's job; its run "": none */
    bool announces;       /* only tells the registry its session: it has room for nothing */
    /* of the worker alone */
    struct http_options http;
    struct calls *calls;     /* NULL until it is connected */
    struct devices *devices; /* NULL: none */
    size_t address_count;
    struct proof_address addresses[PROOF_ADDRESSES_MAX]; /* of the registry */
    bool was_full;                                       /* its run found no room on the disk */
};

/* Exit status. WORKER_FULL: a run found no room on the disk. */
enum worker_status { WORKER_DONE = 0, WORKER_FAILED = 1, WORKER_SUSPENDED = 3, WORKER_FULL = 4 };

/** For the forked process: asks until it has a run, and runs that. */
_Noreturn void worker_ask(struct worker *worker);
/** For the forked process: removes what killed workers have left on the disk. WORKER_FAILED: not all of it, so try again. */
_Noreturn void worker_sweep(struct worker *worker);
/** For the forked process: sends the kept result of a lease. */
_Noreturn void worker_send(struct worker *worker, const struct taken_lease *lease);
