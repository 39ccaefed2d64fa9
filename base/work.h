/*
 * base/work.h -- a fixed pool of threads for work that may block.
 *
 * The queue has a maximum, so that overload becomes a clear refusal instead of memory. A job is a member of what
 * it works on: submitting allocates nothing and fails only when the queue is full or the pool is stopping.
 */
#pragma once

#include "base/owned.h"
#include "base/result.h"

struct work_pool;

struct work_job {
    void (*run)(struct work_job *job, void *worker_state);
    struct work_job *next; /* the pool's own */
};

struct work_options {
    const char *name;      /* of the threads, at most 15 characters */
    unsigned threads;
    unsigned queue_max;    /* jobs that wait */
    bool is_patient;       /* its threads give way to others (base/pace.h) */
    /** Makes what one worker keeps (a database connection); NULL if nothing. */
    RESULT (*worker_new)(void *context, void **worker_state_out, struct error *err);
    void (*worker_free)(void *worker_state);
    void *context;
};

/** Starts all threads; if one worker's state can't be made, none runs. */
RESULT work_pool_new(const struct work_options *options, struct work_pool **pool_out, struct error *err);
/** ERROR_LIMIT when the queue is full, ERROR_UNAVAILABLE when the pool is stopping; never blocks. */
RESULT work_submit(struct work_pool *pool, struct work_job *job, struct error *err);
/** Jobs that wait now. */
unsigned work_waiting(struct work_pool *pool);
/** Runs what waits, then joins the threads. */
void work_pool_free(struct work_pool *pool);
DEFINE_OWNED(work_pool);
