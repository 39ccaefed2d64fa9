#include "gateway/background/upkeep.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/pace.h"
#include "gateway/pipeline/allotment.h"
#include "gateway/pipeline/gateway.h"
#include "registry/jobs/forgotten.h"
#include "registry/jobs/job.h"

#define LOOK_EVERY_S 5
#define WATCH_MS     500    /* how long a wait for a notification lasts */
#define FIRST_RUN_MS 600000 /* a fresh registry has nothing to collect at its start */

struct keeper {
    struct upkeep *upkeep;
    struct pg *pg;
    enum job_kind kind;
    pthread_t thread;
    bool has_thread;
};

struct upkeep {
    struct gateway *gateway;
    pthread_mutex_t mutex;
    pthread_cond_t woken;
    unsigned wakes; /* how often somebody called */
    atomic_bool is_stopping;
    struct keeper keepers[JOB_KIND_COUNT];
    struct pg *watching;
    pthread_t watcher;
    bool has_watcher, has_more_forgotten; /* the second: keys without their event, when it looked last */
    int64_t began_ms;
};

static bool is_stopping(void *context)
{
    struct upkeep *upkeep = context;

    return atomic_load(&upkeep->is_stopping);
}

static struct result keeping(void *context, const char *repository, struct policy_keeping *keeping_out, struct error *err)
{
    struct upkeep *upkeep = context;

    return decider_keeping(upkeep->gateway->decider, repository, clock_wall_ms(), keeping_out, err);
}

static void rest(struct upkeep *upkeep)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += LOOK_EVERY_S;
    pthread_mutex_lock(&upkeep->mutex);
    const unsigned wakes = upkeep->wakes;
    while (!atomic_load(&upkeep->is_stopping) && wakes == upkeep->wakes &&
           pthread_cond_timedwait(&upkeep->woken, &upkeep->mutex, &until) == 0)
        continue;
    pthread_mutex_unlock(&upkeep->mutex);
}

/* Until nothing is left to do. */
static void work(struct keeper *keeper)
{
    const struct gateway *gateway = keeper->upkeep->gateway;
    const struct job_options options = {.kind = keeper->kind,
                                        .instance = gateway->settings->instance,
                                        .is_stopping = is_stopping,
                                        .context = keeper->upkeep,
                                        .keeping = keeping,
                                        .kept = (unsigned)gateway->settings->jobs_kept};
    struct error err = {0};
    bool worked = true;

    if (pg_is_broken(keeper->pg) && !pg_reopen(keeper->pg, &err).ok) return; /* the readers say so already */
    while (worked && !is_stopping(keeper->upkeep)) {
        if (registry_work(gateway->registry, keeper->pg, &options, &worked, &err).ok) continue;
        log_error("a job did not go on; it is tried again", &err);
        return;
    }
}

static void *keeper_main(void *argument)
{
    struct keeper *keeper = argument;

    pace_patient();
    while (!is_stopping(keeper->upkeep)) {
        work(keeper);
        rest(keeper->upkeep);
    }
    return NULL;
}

/* ---- what the watcher does now and then ---- */

static struct result drop_forgotten(struct upkeep *upkeep, struct error *err)
{
    return registry_drop_forgotten(upkeep->gateway->registry, upkeep->watching, err);
}

static struct result record_forgotten(struct upkeep *upkeep, struct error *err)
{
    size_t recorded = 0;

    upkeep->has_more_forgotten = false;
    TRY(registry_record_forgotten(upkeep->gateway->registry, upkeep->watching, &recorded, err));
    upkeep->has_more_forgotten = recorded > 0;
    return SUCCESS;
}

static bool more_are_forgotten(const struct upkeep *upkeep)
{
    return upkeep->has_more_forgotten;
}

static struct result refresh_allotment(struct upkeep *upkeep, struct error *err)
{
    (void)err; /* what was known stays */
    allotment_refresh(upkeep->gateway->allotment, upkeep->watching);
    return SUCCESS;
}

static struct result write_notes(struct upkeep *upkeep, struct error *err)
{
    return registry_write_notes(upkeep->gateway->registry, upkeep->watching, err);
}

static bool notes_are_many(const struct upkeep *upkeep)
{
    return registry_notes_are_many(upkeep->gateway->registry);
}

/* Not at the very start, where others wait for the disk. */
static bool may_begin(const struct upkeep *upkeep, int64_t interval_s)
{
    const int64_t first_ms = interval_s * 1000 < FIRST_RUN_MS ? interval_s * 1000 : FIRST_RUN_MS;

    return interval_s != 0 && clock_monotonic_ms() - upkeep->began_ms >= first_ms;
}

static struct result begin_scrubs(struct upkeep *upkeep, struct error *err)
{
    const struct settings *settings = upkeep->gateway->settings;
    const struct scrub_schedule schedule = {.interval_s = settings->scrub_interval,
                                            .rate_bytes = (uint64_t)settings->scrub_rate};

    if (!may_begin(upkeep, schedule.interval_s)) return SUCCESS;
    return job_begin_scrubs_if_due(upkeep->gateway->registry, upkeep->watching, &schedule, err);
}

static struct result begin_if_due(struct upkeep *upkeep, struct error *err)
{
    const int64_t interval_s = upkeep->gateway->settings->collect_interval;

    if (!may_begin(upkeep, interval_s)) return SUCCESS;
    return job_begin_collection_if_due(upkeep->gateway->registry, upkeep->watching, interval_s, err);
}

static struct result check_served(struct upkeep *upkeep, struct error *err)
{
    return registry_check_served(upkeep->gateway->registry, upkeep->watching, err);
}

static const struct chore {
    int64_t every_ms;
    struct result (*run)(struct upkeep *upkeep, struct error *err); /* a little: the others wait for it */
    bool (*has_more)(const struct upkeep *upkeep);                  /* it is due again at once; NULL: never */
    const char *failed;                                             /* what the log says; then it waits for its time */
} chores[] = {
    {10000, drop_forgotten, NULL, "forgotten keys can't be dropped"},
    {2000, record_forgotten, more_are_forgotten, "forgotten keys can't be recorded"},
    {2000, refresh_allotment, NULL, ""},
    {10000, write_notes, notes_are_many, "what was pulled lately can't be written down"},
    {10000, begin_if_due, NULL, "a garbage collection can't begin"},
    {10000, begin_scrubs, NULL, "a scrub can't begin"},
    {60000, check_served, NULL, "a region is missing here"},
};
#define CHORES           (sizeof chores / sizeof chores[0])
#define CHORES_OF_NOTICE 2 /* the first ones, which the database also asks for */

struct timetable {
    int64_t due_ms;
    bool has_failed;
};

static bool is_due(const struct upkeep *upkeep, const struct timetable *times, size_t chore)
{
    if (clock_monotonic_ms() >= times[chore].due_ms) return true;
    return chores[chore].has_more != NULL && !times[chore].has_failed && chores[chore].has_more(upkeep);
}

static void do_chores(struct upkeep *upkeep, struct timetable times[CHORES])
{
    for (size_t i = 0; i < CHORES && !is_stopping(upkeep) && !pg_is_broken(upkeep->watching); i++) {
        struct error err = {0};
        if (!is_due(upkeep, times, i)) continue;
        times[i].due_ms = clock_monotonic_ms() + chores[i].every_ms;
        times[i].has_failed = !chores[i].run(upkeep, &err).ok;
        if (times[i].has_failed) log_error(chores[i].failed, &err);
    }
}

static unsigned wait_ms(const struct upkeep *upkeep, const struct timetable *times)
{
    bool any = false;

    for (size_t i = 0; i < CHORES; i++) any = any || is_due(upkeep, times, i);
    return any ? 0 : WATCH_MS;
}

static void *watcher_main(void *argument)
{
    struct upkeep *upkeep = argument;
    struct timetable times[CHORES] = {{0}};
    struct error ignored = {0};
    bool is_told = false;

    while (!is_stopping(upkeep)) {
        if (pg_is_broken(upkeep->watching) && !pg_reopen(upkeep->watching, &ignored).ok) { /* the readers say so already */
            rest(upkeep);
            continue;
        }
        do_chores(upkeep, times);
        if (!pg_wait_notify(upkeep->watching, wait_ms(upkeep, times), &is_told, &ignored).ok) is_told = true;
        for (size_t i = 0; i < CHORES_OF_NOTICE && is_told; i++) times[i].due_ms = 0;
    }
    return NULL;
}

static struct result start_watcher(struct upkeep *upkeep, struct error *err)
{
    TRY(pg_open(upkeep->gateway->settings->database, upkeep->gateway->tables, &upkeep->watching, err));
    TRY(pg_listen(upkeep->watching, FORGOTTEN_CHANNEL, err));
    upkeep->has_watcher = pthread_create(&upkeep->watcher, NULL, watcher_main, upkeep) == 0;
    return upkeep->has_watcher ? SUCCESS : failure(err, ERROR_NO_MEMORY, "can't start a thread for forgotten keys");
}

static struct result start_keeper(struct upkeep *upkeep, enum job_kind kind, struct error *err)
{
    struct keeper *keeper = &upkeep->keepers[kind];

    keeper->upkeep = upkeep;
    keeper->kind = kind;
    TRY(pg_open(upkeep->gateway->settings->database, upkeep->gateway->tables, &keeper->pg, err));
    keeper->has_thread = pthread_create(&keeper->thread, NULL, keeper_main, keeper) == 0;
    return keeper->has_thread ? SUCCESS : failure(err, ERROR_NO_MEMORY, "can't start a thread for jobs");
}

struct result upkeep_start(struct gateway *gateway, struct upkeep **upkeep_out, struct error *err)
{
    OWNED(upkeep) *upkeep = memory_zeroed(1, sizeof *upkeep);

    if (upkeep == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for jobs");
    upkeep->gateway = gateway;
    upkeep->began_ms = clock_monotonic_ms();
    pthread_mutex_init(&upkeep->mutex, NULL);
    clock_condition(&upkeep->woken);
    for (enum job_kind kind = 0; kind < JOB_KIND_COUNT; kind++) TRY(start_keeper(upkeep, kind, err));
    TRY(start_watcher(upkeep, err));
    *upkeep_out = GIVE(upkeep);
    return SUCCESS;
}

void upkeep_wake(struct upkeep *upkeep)
{
    pthread_mutex_lock(&upkeep->mutex);
    upkeep->wakes++;
    pthread_cond_broadcast(&upkeep->woken);
    pthread_mutex_unlock(&upkeep->mutex);
}

void upkeep_free(struct upkeep *upkeep)
{
    if (upkeep == NULL) return;
    atomic_store(&upkeep->is_stopping, true);
    upkeep_wake(upkeep);
    for (size_t i = 0; i < sizeof upkeep->keepers / sizeof upkeep->keepers[0]; i++) {
        if (upkeep->keepers[i].has_thread) pthread_join(upkeep->keepers[i].thread, NULL);
        pg_free(upkeep->keepers[i].pg);
    }
    if (upkeep->has_watcher) pthread_join(upkeep->watcher, NULL);
    pg_free(upkeep->watching);
    pthread_cond_destroy(&upkeep->woken);
    pthread_mutex_destroy(&upkeep->mutex);
    free(upkeep);
}
