/*
 * base/work.h -- a fixed pool of threads for work that may block.
 *
 * The queue has a maximum, so that overload becomes a clear refusal instead of memory. A job is a member of what
 * it works on: submitting allocates nothing and fails only when the queue is full or the pool is stopping.
 *
 * A shared pool has an owner for each job, and no owner gets all of its threads: the last quarter of them is for owners who have
 * less than a sixteenth (base/share.h), but always for one job. Who has fewest is next; among equals, who came first. Jobs that may not run yet wait.
 */
#pragma once

#include <stdint.h>

#include "base/owned.h"
#include "base/result.h"

struct work_pool;

struct work_job {
    void (*run)(struct work_job *job, void *worker_state);
    struct work_job *next; /* the pool's own */
    uint64_t owner;        /* of a shared pool; 0: nobody's, which may always run. work_own() sets it */
    bool is_alone;         /* it waits while another one of its owner that is so, too, runs */
};

struct work_options {
    const char *name;      /* of the threads, at most 15 characters */
    unsigned threads;
    unsigned queue_max;    /* jobs that wait */
    bool is_patient;       /* its threads give way to others (base/pace.h) */
    bool is_shared;        /* no owner gets all threads */
    /** Makes what one worker keeps (a database connection); NULL if nothing. */
    RESULT (*worker_new)(void *context, void **worker_state_out, struct error *err);
    void (*worker_free)(void *worker_state);
    void *context;
};

/** Starts all threads; if one worker's state can't be made, none runs. */
RESULT work_pool_new(const struct work_options *options, struct work_pool **pool_out, struct error *err);
/** ERROR_LIMIT when the queue is full, ERROR_UNAVAILABLE when the pool is stopping; never blocks. */
RESULT work_submit(struct work_pool *pool, struct work_job *job, struct error *err);
/**
 * Says whose the job is that this thread runs, or is about to submit. False: it may not run now; who submits it again and returns
 * has it wait for its turn.
 */
bool work_own(struct work_job *job, uint64_t owner, bool is_alone);
/** Jobs that wait now. */
unsigned work_waiting(struct work_pool *pool);
/** Runs what waits, then joins the threads. */
void work_pool_free(struct work_pool *pool);
DEFINE_OWNED(work_pool);
