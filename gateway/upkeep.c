#include "gateway/upkeep.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/log.h"
#include "base/memory.h"
#include "gateway/gateway.h"
#include "gateway/tables.h"
#include "registry/forgotten.h"
#include "registry/job.h"

#define LOOK_EVERY_S    5
#define WATCH_MS        500 /* how long a wait for a notification lasts */
#define ROUNDS_PER_LOOK 20  /* ten seconds, for what was told while the connection was away */

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
    struct keeper keepers[2];
    struct pg *watching;
    pthread_t watcher;
    bool has_watcher;
};

static bool is_stopping(void *context)
{
    struct upkeep *upkeep = context;

    return atomic_load(&upkeep->is_stopping);
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
                                        .context = keeper->upkeep};
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

    while (!is_stopping(keeper->upkeep)) {
        work(keeper);
        rest(keeper->upkeep);
    }
    return NULL;
}

/* Forgotten keys are dropped at once when the database says so, and looked for every ten seconds in case it could not. */
static void *watcher_main(void *argument)
{
    struct upkeep *upkeep = argument;
    struct error err = {0};
    bool is_told = true;

    for (unsigned round = 0; !is_stopping(upkeep); round++) {
        size_t recorded = 0;
        if (pg_is_broken(upkeep->watching) && !pg_reopen(upkeep->watching, &err).ok) {
            rest(upkeep);
            continue;
        }
        if (!(is_told || round % ROUNDS_PER_LOOK == 0) ||
            registry_drop_forgotten(upkeep->gateway->registry, upkeep->watching, &err).ok)
            do /* as many as there are */
                if (!registry_record_forgotten(upkeep->gateway->registry, upkeep->watching, &recorded, &err).ok) break;
            while (recorded > 0 && !is_stopping(upkeep));
        is_told = false;
        if (!pg_wait_notify(upkeep->watching, WATCH_MS, &is_told, &err).ok) is_told = true;
    }
    return NULL;
}

static struct result start_watcher(struct upkeep *upkeep, struct error *err)
{
    TRY(pg_open(upkeep->gateway->settings->database, gateway_tables, &upkeep->watching, err));
    TRY(pg_listen(upkeep->watching, FORGOTTEN_CHANNEL, err));
    upkeep->has_watcher = pthread_create(&upkeep->watcher, NULL, watcher_main, upkeep) == 0;
    return upkeep->has_watcher ? SUCCESS : failure(err, ERROR_NO_MEMORY, "can't start a thread for forgotten keys");
}

static struct result start_keeper(struct upkeep *upkeep, enum job_kind kind, struct error *err)
{
    struct keeper *keeper = &upkeep->keepers[kind];

    keeper->upkeep = upkeep;
    keeper->kind = kind;
    TRY(pg_open(upkeep->gateway->settings->database, gateway_tables, &keeper->pg, err));
    keeper->has_thread = pthread_create(&keeper->thread, NULL, keeper_main, keeper) == 0;
    return keeper->has_thread ? SUCCESS : failure(err, ERROR_NO_MEMORY, "can't start a thread for jobs");
}

struct result upkeep_start(struct gateway *gateway, struct upkeep **upkeep_out, struct error *err)
{
    OWNED(upkeep) *upkeep = memory_zeroed(1, sizeof *upkeep);
    pthread_condattr_t monotonic;

    if (upkeep == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for jobs");
    upkeep->gateway = gateway;
    pthread_mutex_init(&upkeep->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&upkeep->woken, &monotonic);
    pthread_condattr_destroy(&monotonic);
    TRY(start_keeper(upkeep, JOB_SCRUB, err));
    TRY(start_keeper(upkeep, JOB_REWRAP, err));
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
