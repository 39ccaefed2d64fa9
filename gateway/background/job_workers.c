#include "gateway/background/job_workers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/priority.h"
#include "documents/view.h"
#include "gateway/background/holds.h"
#include "gateway/pipeline/event_quota.h"
#include "gateway/pipeline/gateway.h"
#include "planning/plan_make.h"
#include "registry/jobs/forgotten.h"
#include "registry/jobs/job.h"
#include "registry/jobs/maintenance.h"
#include "registry/maintenance.h"

#define CHECK_INTERVAL_S 5
#define WATCH_MS         500    /* longest wait for a notification */
#define FIRST_RUN_MS     600000 /* a fresh registry has nothing to collect at its start */

struct job_worker {
    struct job_workers *workers;
    struct pg *pg;
    enum job_kind kind;
    pthread_t thread;
    bool has_thread;
};

struct job_workers {
    struct gateway *gateway;
    pthread_mutex_t mutex;
    pthread_cond_t woken;
    unsigned wakes; /* number of calls of job_workers_wake() */
    atomic_bool is_stopping;
    struct job_worker by_kind[JOB_KIND_COUNT];
    struct pg *watching;
    pthread_t watcher;
    bool has_watcher, has_more_forgotten; /* the second: some forgotten keys had no event yet at the last look */
    int64_t began_ms;
};

static bool is_stopping(void *context)
{
    struct job_workers *workers = context;

    return atomic_load(&workers->is_stopping);
}

static struct result retention(void *context, const char *repository, struct policy_retention *retention_out, struct error *err)
{
    struct job_workers *workers = context;

    TRY(decider_retention(workers->gateway->decider, repository, clock_wall_ms(), retention_out, err));
    return holds_keep(workers->gateway, repository, retention_out, err);
}

static struct result placed(void *context, const struct placed_query *query, struct placed_copies *copies_out, struct error *err)
{
    struct job_workers *workers = context;

    return decider_placed(workers->gateway->decider, query, copies_out, err);
}

static bool go_on(void *context, enum plan_phase phase, uint64_t done, uint64_t total)
{
    const struct job_plan_task *task = context;

    return task->go_on(task->run, phase, done, total);
}

static struct result plan(void *context, const struct job_plan_task *task, struct buffer *report, bool *is_whole_out,
                          struct error *err)
{
    struct job_workers *workers = context;
    const struct plan_source source = {.decider = workers->gateway->decider,
                                       .pg = task->pg,
                                       .input = task->input,
                                       .now_ms = task->now_ms,
                                       .context = (void *)(uintptr_t)task,
                                       .go_on = go_on};

    return plan_make(&source, report, is_whole_out, err);
}

static void pause_for(struct job_workers *workers)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += CHECK_INTERVAL_S;
    pthread_mutex_lock(&workers->mutex);
    const unsigned wakes = workers->wakes;
    while (!atomic_load(&workers->is_stopping) && wakes == workers->wakes &&
           pthread_cond_timedwait(&workers->woken, &workers->mutex, &until) == 0)
        continue;
    pthread_mutex_unlock(&workers->mutex);
}

/* Works until there is no job left. */
static void work(struct job_worker *worker)
{
    const struct gateway *gateway = worker->workers->gateway;
    const struct job_options options = {.kind = worker->kind,
                                        .instance = gateway->settings->instance,
                                        .is_stopping = is_stopping,
                                        .context = worker->workers,
                                        .retention = retention,
                                        .placed = placed,
                                        .plan = plan,
                                        .kept = (unsigned)gateway->settings->jobs_kept};
    struct error err = {0};
    bool worked = true;

    if (pg_is_broken(worker->pg) && !pg_reopen(worker->pg, &err).ok) return; /* the readers log it already */
    if (worker->kind == JOB_COLLECTION && !holds_watch(worker->workers->gateway, worker->pg)) return;
    while (worked && !is_stopping(worker->workers)) {
        if (registry_work(gateway->registry, worker->pg, &options, &worked, &err).ok) continue;
        log_error("a job did not go on; it is tried again", &err);
        return;
    }
}

static void *worker_main(void *argument)
{
    struct job_worker *worker = argument;

    priority_background();
    while (!is_stopping(worker->workers)) {
        work(worker);
        pause_for(worker->workers);
    }
    return NULL;
}

/* ---- The periodic tasks of the watcher ---- */

static struct result drop_forgotten(struct job_workers *workers, struct error *err)
{
    return registry_drop_forgotten(workers->gateway->registry, workers->watching, err);
}

static struct result record_forgotten(struct job_workers *workers, struct error *err)
{
    size_t recorded = 0;

    workers->has_more_forgotten = false;
    TRY(registry_record_forgotten(workers->gateway->registry, workers->watching, &recorded, err));
    workers->has_more_forgotten = recorded > 0;
    return SUCCESS;
}

static bool more_are_forgotten(const struct job_workers *workers)
{
    return workers->has_more_forgotten;
}

static struct result refresh_event_quota(struct job_workers *workers, struct error *err)
{
    (void)err; /* on failure the old list stays */
    event_quota_refresh(workers->gateway->event_quota, workers->watching);
    return SUCCESS;
}

static struct result write_notes(struct job_workers *workers, struct error *err)
{
    return registry_write_notes(workers->gateway->registry, workers->watching, err);
}

static bool notes_are_many(const struct job_workers *workers)
{
    return registry_notes_are_many(workers->gateway->registry);
}

/* Not right after the start, when other work waits for the disk. */
static bool may_begin(const struct job_workers *workers, int64_t interval_s)
{
    const int64_t first_ms = interval_s * 1000 < FIRST_RUN_MS ? interval_s * 1000 : FIRST_RUN_MS;

    return interval_s != 0 && clock_monotonic_ms() - workers->began_ms >= first_ms;
}

static struct result begin_scrubs(struct job_workers *workers, struct error *err)
{
    const struct settings *settings = workers->gateway->settings;
    const struct scrub_schedule schedule = {.interval_s = settings->scrub_interval, .rate_bytes = (uint64_t)settings->scrub_rate};

    if (!may_begin(workers, schedule.interval_s)) return SUCCESS;
    return job_begin_scrubs_if_due(workers->gateway->registry, workers->watching, &schedule, err);
}

static struct result begin_if_due(struct job_workers *workers, struct error *err)
{
    const int64_t interval_s = workers->gateway->settings->collect_interval;

    if (!may_begin(workers, interval_s)) return SUCCESS;
    return job_begin_collection_if_due(workers->gateway->registry, workers->watching, interval_s, err);
}

static struct result check_served(struct job_workers *workers, struct error *err)
{
    return registry_check_served(workers->gateway->registry, workers->watching, err);
}

static struct result refresh_documents(struct job_workers *workers, struct error *err)
{
    const struct gateway *gateway = workers->gateway;
    const struct document_source source = {workers->watching, gateway->keyd, gateway->sequencer};

    return document_view_refresh(gateway->documents, &source, err);
}

static const struct task {
    int64_t every_ms;
    struct result (*run)(struct job_workers *workers, struct error *err); /* runs briefly, because the other tasks wait for it */
    bool (*has_more)(const struct job_workers *workers);                  /* it is due again at once; NULL: never */
    const char *failed;                                                   /* for the log; then it waits for its time */
} tasks[] = {
    {10000, drop_forgotten, NULL, "forgotten keys can't be dropped"},
    {2000, record_forgotten, more_are_forgotten, "forgotten keys can't be recorded"},
    {2000, refresh_event_quota, NULL, ""},
    {10000, write_notes, notes_are_many, "what was pulled lately can't be written down"},
    {10000, begin_if_due, NULL, "a garbage collection can't begin"},
    {10000, begin_scrubs, NULL, "a scrub can't begin"},
    {5000, refresh_documents, NULL, "signed documents are not as sijil-keyd has pinned them, or can't be read"},
    {60000, check_served, NULL, "a region is missing here"},
};
#define TASKS           (sizeof tasks / sizeof tasks[0])
#define TASKS_OF_NOTICE 2 /* the first ones; a notification of the database makes them due */

struct timetable {
    int64_t due_ms;
    bool has_failed;
};

static bool is_due(const struct job_workers *workers, const struct timetable *times, size_t task)
{
    if (clock_monotonic_ms() >= times[task].due_ms) return true;
    return tasks[task].has_more != NULL && !times[task].has_failed && tasks[task].has_more(workers);
}

static void run_tasks(struct job_workers *workers, struct timetable times[TASKS])
{
    for (size_t i = 0; i < TASKS && !is_stopping(workers) && !pg_is_broken(workers->watching); i++) {
        struct error err = {0};
        if (!is_due(workers, times, i)) continue;
        times[i].due_ms = clock_monotonic_ms() + tasks[i].every_ms;
        times[i].has_failed = !tasks[i].run(workers, &err).ok;
        if (times[i].has_failed) log_error(tasks[i].failed, &err);
    }
}

static unsigned wait_ms(const struct job_workers *workers, const struct timetable *times)
{
    bool any = false;

    for (size_t i = 0; i < TASKS; i++) any = any || is_due(workers, times, i);
    return any ? 0 : WATCH_MS;
}

static void *watcher_main(void *argument)
{
    struct job_workers *workers = argument;
    struct timetable times[TASKS] = {{0}};
    struct error ignored = {0};
    bool is_told = false;

    while (!is_stopping(workers)) {
        if (pg_is_broken(workers->watching) && !pg_reopen(workers->watching, &ignored).ok) { /* the readers log it already */
            pause_for(workers);
            continue;
        }
        run_tasks(workers, times);
        if (!pg_wait_notify(workers->watching, wait_ms(workers, times), &is_told, &ignored).ok) is_told = true;
        for (size_t i = 0; i < TASKS_OF_NOTICE && is_told; i++) times[i].due_ms = 0;
    }
    return NULL;
}

static struct result start_watcher(struct job_workers *workers, struct error *err)
{
    TRY(pg_open_lazily(workers->gateway->settings->database, workers->gateway->tables, &workers->watching, err));
    TRY(pg_listen(workers->watching, FORGOTTEN_CHANNEL, err));
    workers->has_watcher = pthread_create(&workers->watcher, NULL, watcher_main, workers) == 0;
    return workers->has_watcher ? SUCCESS : failure(err, ERROR_NO_MEMORY, "can't start a thread for forgotten keys");
}

static struct result start_worker(struct job_workers *workers, enum job_kind kind, struct error *err)
{
    struct job_worker *worker = &workers->by_kind[kind];

    worker->workers = workers;
    worker->kind = kind;
    TRY(pg_open_lazily(workers->gateway->settings->database, workers->gateway->tables, &worker->pg, err));
    worker->has_thread = pthread_create(&worker->thread, NULL, worker_main, worker) == 0;
    return worker->has_thread ? SUCCESS : failure(err, ERROR_NO_MEMORY, "can't start a thread for jobs");
}

struct result job_workers_start(struct gateway *gateway, struct job_workers **job_workers_out, struct error *err)
{
    OWNED(job_workers) *workers = memory_zeroed(1, sizeof *workers);

    if (workers == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for jobs");
    workers->gateway = gateway;
    workers->began_ms = clock_monotonic_ms();
    pthread_mutex_init(&workers->mutex, NULL);
    clock_condition(&workers->woken);
    for (enum job_kind kind = 0; kind < JOB_KIND_COUNT; kind++) TRY(start_worker(workers, kind, err));
    TRY(start_watcher(workers, err));
    *job_workers_out = GIVE(workers);
    return SUCCESS;
}

void job_workers_wake(struct job_workers *workers)
{
    pthread_mutex_lock(&workers->mutex);
    workers->wakes++;
    pthread_cond_broadcast(&workers->woken);
    pthread_mutex_unlock(&workers->mutex);
}

void job_workers_free(struct job_workers *workers)
{
    if (workers == NULL) return;
    atomic_store(&workers->is_stopping, true);
    job_workers_wake(workers);
    for (size_t i = 0; i < sizeof workers->by_kind / sizeof workers->by_kind[0]; i++) {
        if (workers->by_kind[i].has_thread) pthread_join(workers->by_kind[i].thread, NULL);
        pg_free(workers->by_kind[i].pg);
    }
    if (workers->has_watcher) pthread_join(workers->watcher, NULL);
    pg_free(workers->watching);
    pthread_cond_destroy(&workers->woken);
    pthread_mutex_destroy(&workers->mutex);
    free(workers);
}
