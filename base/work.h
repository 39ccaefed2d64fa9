/*
 * base/work.h -- a fixed pool of threads for work that may block.
 *
 * The queue has a maximum. An overloaded pool refuses jobs, so that memory is not used up. The job is a member of the struct
 * that it works on, so submitting allocates nothing. It fails only when the queue is full or the pool is stopping.
 *
 * In a shared pool each job has an owner, and no owner gets all threads. The last quarter is for owners with less than a
 * sixteenth of the threads, but always for one job (base/share.h). The owner with the fewest running jobs is next; among
 * equals, the job that came first. A job that may not run yet waits.
 */
#pragma once

#include <stdint.h>

#include "base/owned.h"
#include "base/result.h"

struct work_pool;

struct work_job {
    void (*run)(struct work_job *job, void *worker_state);
    struct work_job *next; /* used by the pool */
    uint64_t owner;        /* in a shared pool; 0: no owner, so it may always run. work_own() sets it */
    bool is_alone;         /* it waits while another such job of its owner runs */
};

struct work_options {
    const char *name; /* of the threads, at most 15 characters */
    unsigned threads;
    unsigned queue_max; /* waiting jobs */
    bool is_background; /* its threads have low priority (base/priority.h) */
    bool is_shared;     /* no owner gets all threads */
    /** Makes the state of each worker, such as a database connection; NULL if workers have none. */
    RESULT (*worker_new)(void *context, void **worker_state_out, struct error *err);
    void (*worker_free)(void *worker_state);
    void *context;
};

/** Starts all threads. If the state of one worker can't be made, none runs. */
RESULT work_pool_new(const struct work_options *options, struct work_pool **pool_out, struct error *err);
/** ERROR_LIMIT when the queue is full, ERROR_UNAVAILABLE when the pool is stopping. Never blocks. */
RESULT work_submit(struct work_pool *pool, struct work_job *job, struct error *err);
/**
 * Sets the owner of the job that this thread runs, or is about to submit. False: the job may not run now. The caller then
 * submits it again and returns, and the job waits until it may.
 */
bool work_own(struct work_job *job, uint64_t owner, bool is_alone);
/** The number of waiting jobs. */
unsigned work_waiting(struct work_pool *pool);
/** Runs the waiting jobs, then joins the threads. */
void work_pool_free(struct work_pool *pool);
DEFINE_OWNED(work_pool);
