#include "client/jobs.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"

/* All jobs of one run; its threads share it. */
struct pool {
    const struct jobs *jobs;
    pthread_mutex_t mutex;
    size_t next;
    bool has_failed;
    struct error err;
    char explanation[sizeof((struct report){0}.explanation)]; /* of the first failure */
    struct session *session;
    atomic_bool gives_up;
};

struct job {
    struct pool *pool;
    struct session *session, *clone; /* the clone is owned; the first job has none, and uses the caller's session */
    struct report report;            /* of the clone, so that jobs explain refusals separately */
    pthread_t thread;
    bool has_thread;
};

/* False: no work is left. */
static bool take(struct pool *pool, size_t *index_out)
{
    (void)pthread_mutex_lock(&pool->mutex);
    const bool goes_on = !pool->has_failed && pool->next < pool->jobs->count;
    if (goes_on) *index_out = pool->next++;
    (void)pthread_mutex_unlock(&pool->mutex);
    return goes_on;
}

static void note_failure(struct job *job, const struct error *why)
{
    struct pool *pool = job->pool;

    (void)pthread_mutex_lock(&pool->mutex);
    if (!pool->has_failed) {
        pool->err = *why;
        memcpy(pool->explanation, session_report(job->session)->explanation, sizeof pool->explanation);
    }
    pool->has_failed = true;
    atomic_store(&pool->gives_up, true);
    (void)pthread_mutex_unlock(&pool->mutex);
}

static void *run(void *argument)
{
    struct job *job = argument;
    const struct jobs *jobs = job->pool->jobs;
    size_t index = 0;

    while (take(job->pool, &index)) {
        struct error err = {0};
        if (!jobs->work(jobs->context, index, job->session, &err).ok) note_failure(job, &err);
    }
    return NULL;
}

static struct result prepare(struct pool *pool, struct job *job, bool is_first, struct error *err)
{
    job->pool = pool;
    job->session = pool->session;
    if (!is_first) {
        job->report = *session_report(pool->session);
        TRY(session_clone(pool->session, &job->report, &job->clone, err));
        job->session = job->clone;
    }
    session_give_up_when(job->session, &pool->gives_up);
    return SUCCESS;
}

/* The caller's thread works too. If a thread can't be started, the others do its work. */
static struct result run_all(struct pool *pool, struct job *all, unsigned count, struct error *err)
{
    for (unsigned i = 0; i < count; i++) TRY(prepare(pool, &all[i], i == 0, err));
    for (unsigned i = 1; i < count; i++) all[i].has_thread = pthread_create(&all[i].thread, NULL, run, &all[i]) == 0;
    (void)run(&all[0]);
    for (unsigned i = 1; i < count; i++)
        if (all[i].has_thread) (void)pthread_join(all[i].thread, NULL);
    if (!pool->has_failed) return SUCCESS;
    memcpy(session_report(pool->session)->explanation, pool->explanation, sizeof pool->explanation);
    *err = pool->err;
    return (struct result){.ok = false};
}

struct result jobs_run(const struct jobs *jobs, struct session *session, struct error *err)
{
    struct pool pool = {.jobs = jobs, .session = session};
    const unsigned count = jobs->count < jobs->parallel ? (unsigned)jobs->count : jobs->parallel;
    struct job *all = memory_zeroed(count == 0 ? 1 : count, sizeof *all);

    if (all == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for %u jobs", count);
    (void)pthread_mutex_init(&pool.mutex, NULL);
    const struct result done = count == 0 ? SUCCESS : run_all(&pool, all, count, err);
    session_give_up_when(session, NULL);
    for (unsigned i = 0; i < count; i++) session_free(all[i].clone);
    (void)pthread_mutex_destroy(&pool.mutex);
    free(all);
    return done;
}
