#include "base/work.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/fault.h"
#include "base/memory.h"
#include "base/pace.h"

struct worker {
    struct work_pool *pool;
    pthread_t thread;
    pthread_cond_t called;
    bool is_idle;
    struct worker *next_idle;
    bool started;
    void *state;
};

struct work_pool {
    struct work_options options;
    pthread_mutex_t mutex;
    struct worker *idle; /* the one that worked last is called first: its stack and caches are warm */
    struct work_job *first, *last;
    unsigned waiting;
    bool stopping;
    struct worker workers[];
};

/* With the mutex held. */
static void call_one(struct work_pool *pool)
{
    struct worker *worker = pool->idle;

    if (worker == NULL) return;
    pool->idle = worker->next_idle;
    worker->is_idle = false;
    pthread_cond_signal(&worker->called);
}

/* With the mutex held: it woke by itself. */
static void leave_idle(struct work_pool *pool, struct worker *worker)
{
    struct worker **place = &pool->idle;

    while (*place != worker) place = &(*place)->next_idle;
    *place = worker->next_idle;
    worker->is_idle = false;
}

/* With the mutex held. Somebody else may have taken the job before the one who was called comes to it. */
static void wait_for_job(struct work_pool *pool, struct worker *worker)
{
    while (pool->first == NULL && !pool->stopping) {
        if (!worker->is_idle) {
            worker->next_idle = pool->idle;
            pool->idle = worker;
            worker->is_idle = true;
        }
        pthread_cond_wait(&worker->called, &pool->mutex);
    }
    if (worker->is_idle) leave_idle(pool, worker);
}

static struct work_job *next_job(struct worker *worker)
{
    struct work_pool *pool = worker->pool;

    pthread_mutex_lock(&pool->mutex);
    wait_for_job(pool, worker);
    struct work_job *job = pool->first;
    if (job != NULL) {
        pool->first = job->next;
        if (pool->first == NULL) pool->last = NULL;
        pool->waiting--;
    }
    pthread_mutex_unlock(&pool->mutex);
    return job;
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;

    if (worker->pool->options.is_patient) pace_patient();
    for (struct work_job *job; (job = next_job(worker)) != NULL;) job->run(job, worker->state);
    return NULL;
}

static struct result worker_start(struct work_pool *pool, struct worker *worker, struct error *err)
{
    char name[16] = {0};

    worker->pool = pool;
    pthread_cond_init(&worker->called, NULL);
    if (pool->options.worker_new != NULL) TRY(pool->options.worker_new(pool->options.context, &worker->state, err));
    const int problem = fault_is_due(FAULT_THREAD) ? EAGAIN : pthread_create(&worker->thread, NULL, worker_main, worker);
    if (problem != 0) return failure(err, ERROR_NO_MEMORY, "can't start a thread: %s", strerror(problem));
    worker->started = true;
    memcpy(name, pool->options.name, strnlen(pool->options.name, sizeof name - 1));
    (void)pthread_setname_np(worker->thread, name);
    return SUCCESS;
}

struct result work_pool_new(const struct work_options *options, struct work_pool **pool_out, struct error *err)
{
    OWNED(work_pool) *pool = memory_zeroed(1, sizeof *pool + options->threads * sizeof pool->workers[0]);
    if (pool == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for %u workers", options->threads);

    pool->options = *options;
    pthread_mutex_init(&pool->mutex, NULL);
    for (unsigned i = 0; i < options->threads; i++) TRY(worker_start(pool, &pool->workers[i], err));
    *pool_out = GIVE(pool);
    return SUCCESS;
}

struct result work_submit(struct work_pool *pool, struct work_job *job, struct error *err)
{
    struct result result = SUCCESS;

    job->next = NULL;
    pthread_mutex_lock(&pool->mutex);
    if (pool->stopping) {
        result = failure(err, ERROR_UNAVAILABLE, "the server is stopping");
    } else if (pool->waiting >= pool->options.queue_max) {
        result = failure(err, ERROR_LIMIT, "%u jobs wait for a %s worker already", pool->waiting, pool->options.name);
    } else {
        if (pool->last == NULL)
            pool->first = job;
        else
            pool->last->next = job;
        pool->last = job;
        pool->waiting++;
        call_one(pool);
    }
    pthread_mutex_unlock(&pool->mutex);
    return result;
}

unsigned work_waiting(struct work_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    const unsigned waiting = pool->waiting;
    pthread_mutex_unlock(&pool->mutex);
    return waiting;
}

void work_pool_free(struct work_pool *pool)
{
    if (pool == NULL) return;
    pthread_mutex_lock(&pool->mutex);
    pool->stopping = true;
    while (pool->idle != NULL) call_one(pool);
    pthread_mutex_unlock(&pool->mutex);
    for (unsigned i = 0; i < pool->options.threads; i++) {
        struct worker *worker = &pool->workers[i];
        if (worker->started) pthread_join(worker->thread, NULL);
        if (worker->pool != NULL) pthread_cond_destroy(&worker->called);
        if (worker->state != NULL && pool->options.worker_free != NULL) pool->options.worker_free(worker->state);
    }
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}
