#include "base/work.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "base/fault.h"
#include "base/memory.h"
#include "base/priority.h"
#include "base/share.h"

struct worker {
    struct work_pool *pool;
    pthread_t thread;
    pthread_cond_t called;
    bool is_idle;
    struct worker *next_idle;
    bool started;
    void *state;
    bool is_busy, is_alone; /* is_alone and owner are those of its job */
    uint64_t owner;
};

struct work_pool {
    struct work_options options;
    pthread_mutex_t mutex;
    struct worker *idle; /* the worker that was idle last is woken first: its stack and caches are warm */
    struct work_job *first, *last;
    unsigned waiting;
    bool stopping;
    struct worker workers[];
};

static _Thread_local struct worker *this_worker; /* NULL: the thread belongs to no pool */

/* With the mutex held. Wakes an idle worker. */
static void call_one(struct work_pool *pool)
{
    struct worker *worker = pool->idle;

    if (worker == NULL) return;
    pool->idle = worker->next_idle;
    worker->is_idle = false;
    pthread_cond_signal(&worker->called);
}

/* With the mutex held. For a worker that woke without a signal. */
static void leave_idle(struct work_pool *pool, struct worker *worker)
{
    struct worker **link = &pool->idle;

    while (*link != worker) link = &(*link)->next_idle;
    *link = worker->next_idle;
    worker->is_idle = false;
}

/* With the mutex held. Whether the job may run beside the jobs of all workers but `self`; *owned_out is the number of
 * these with the same owner. */
static bool may_run(const struct work_pool *pool, const struct work_job *job, const struct worker *self, unsigned *owned_out)
{
    const unsigned threads = pool->options.threads;
    unsigned busy = 0, owned = 0;
    bool is_alone = true;

    for (unsigned i = 0; i < threads && job->owner != 0; i++) {
        const struct worker *worker = &pool->workers[i];
        if (!worker->is_busy || worker == self) continue;
        busy++;
        if (worker->owner != job->owner) continue;
        owned++;
        is_alone = is_alone && !worker->is_alone;
    }
    *owned_out = owned;
    if (owned == 0) return true;
    return (is_alone || !job->is_alone) && owned < share_limit(threads, busy, SHARE_LITTLE(threads));
}

/* With the mutex held. The link to the job that runs next; NULL: no job may run. */
static struct work_job **choose(struct work_pool *pool)
{
    struct work_job **chosen = NULL;
    unsigned fewest = UINT_MAX;

    if (!pool->options.is_shared) return pool->first == NULL ? NULL : &pool->first;
    for (struct work_job **link = &pool->first; *link != NULL && fewest > 0; link = &(*link)->next) {
        unsigned owned = 0;
        if (!may_run(pool, *link, NULL, &owned) || owned >= fewest) continue;
        fewest = owned;
        chosen = link;
    }
    return chosen;
}

/* With the mutex held. */
static struct work_job *take_out(struct work_pool *pool, struct work_job **link)
{
    struct work_job *job = *link;

    *link = job->next;
    if (pool->last == job) {
        void *before = (char *)link - offsetof(struct work_job, next);
        pool->last = link == &pool->first ? NULL : before;
    }
    pool->waiting--;
    return job;
}

/* With the mutex held. Another worker may take the job before the woken one gets it. */
static struct work_job **wait_for_job(struct work_pool *pool, struct worker *worker)
{
    struct work_job **link = NULL;

    while ((link = choose(pool)) == NULL && !pool->stopping) {
        if (!worker->is_idle) {
            worker->next_idle = pool->idle;
            pool->idle = worker;
            worker->is_idle = true;
        }
        pthread_cond_wait(&worker->called, &pool->mutex);
    }
    if (worker->is_idle) leave_idle(pool, worker);
    return link;
}

static struct work_job *next_job(struct worker *worker)
{
    struct work_pool *pool = worker->pool;

    pthread_mutex_lock(&pool->mutex);
    worker->is_busy = false;
    struct work_job **link = wait_for_job(pool, worker);
    struct work_job *job = link == NULL ? NULL : take_out(pool, link);
    if (job != NULL) {
        worker->is_busy = true;
        worker->owner = job->owner;
        worker->is_alone = job->is_alone;
        /* This thread's last job may have blocked a job of the same owner. */
        if (pool->options.is_shared && pool->idle != NULL && pool->waiting > 0 && choose(pool) != NULL) call_one(pool);
    }
    pthread_mutex_unlock(&pool->mutex);
    return job;
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;

    this_worker = worker;
    if (worker->pool->options.is_background) priority_background();
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
        if (pool->last == NULL) pool->first = job;
        else pool->last->next = job;
        pool->last = job;
        pool->waiting++;
        call_one(pool);
    }
    pthread_mutex_unlock(&pool->mutex);
    return result;
}

bool work_own(struct work_job *job, uint64_t owner, bool is_alone)
{
    struct worker *worker = this_worker;
    unsigned owned = 0;

    job->owner = owner;
    job->is_alone = is_alone;
    if (worker == NULL || !worker->pool->options.is_shared) return true;
    pthread_mutex_lock(&worker->pool->mutex);
    const bool has_it = worker->owner == owner && worker->is_alone == is_alone;
    const bool may = has_it || may_run(worker->pool, job, worker, &owned);
    if (may) {
        worker->owner = owner;
        worker->is_alone = is_alone;
    }
    pthread_mutex_unlock(&worker->pool->mutex);
    return may;
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
