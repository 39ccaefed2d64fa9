#include "gateway/collector.h"

#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gateway/allotment.h"
#include "gateway/gateway.h"
#include "gateway/tables.h"
#include "registry/collection.h"

#define TURN_S        2      /* a run that another gateway was asked for may wait so long */
#define NOTES_MS      10000
#define DUE_MS        60000
#define FIRST_RUN_MS  600000 /* a fresh registry has nothing to collect at its start */

struct collector {
    struct gateway *gateway;
    struct pg *pg;
    struct uuid id;
    pthread_mutex_t mutex;
    pthread_cond_t woken;
    pthread_t thread;
    bool has_thread, is_stopping, is_woken;
    int64_t began_ms, noted_ms, looked_ms;
};

static bool is_stopping(void *context)
{
    struct collector *collector = context;

    pthread_mutex_lock(&collector->mutex);
    const bool stopping = collector->is_stopping;
    pthread_mutex_unlock(&collector->mutex);
    return stopping;
}

static void rest(struct collector *collector)
{
    struct timespec until;
    int status = 0;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += TURN_S;
    pthread_mutex_lock(&collector->mutex);
    while (!collector->is_stopping && !collector->is_woken && status == 0)
        status = pthread_cond_timedwait(&collector->woken, &collector->mutex, &until);
    collector->is_woken = false;
    pthread_mutex_unlock(&collector->mutex);
}

/* True once in so long. */
static bool is_time(int64_t *last_ms, int64_t every_ms)
{
    const int64_t now_ms = clock_monotonic_ms();

    if (now_ms - *last_ms < every_ms) return false;
    *last_ms = now_ms;
    return true;
}

static void begin_if_due(struct collector *collector)
{
    const int64_t interval_s = collector->gateway->settings->collect_interval;
    const int64_t first_ms = interval_s * 1000 < FIRST_RUN_MS ? interval_s * 1000 : FIRST_RUN_MS;
    struct error err = {0};

    if (interval_s == 0 || clock_monotonic_ms() - collector->began_ms < first_ms) return;
    if (!is_time(&collector->looked_ms, first_ms < DUE_MS ? first_ms : DUE_MS)) return;
    if (!collection_begin_if_due(collector->gateway->registry, collector->pg, interval_s, &err).ok)
        log_error("a garbage collection can't begin", &err);
}

static void collect(struct collector *collector)
{
    const struct collection_runner runner = {.id = collector->id, .is_stopping = is_stopping, .context = collector};
    struct error err = {0};
    bool found = true;

    while (found && !is_stopping(collector)) {
        found = false;
        if (collection_run_next(collector->gateway->registry, collector->pg, &runner, &found, &err).ok) continue;
        if (!is_stopping(collector)) log_error("a garbage collection was put back", &err);
        return;
    }
}

static void turn(struct collector *collector)
{
    struct error err = {0};

    if (pg_is_broken(collector->pg) && !pg_reopen(collector->pg, &err).ok) return; /* the readers say so already */
    allotment_refresh(collector->gateway->allotment, collector->pg);
    if (is_time(&collector->noted_ms, NOTES_MS) &&
        !collection_write_notes(collector->gateway->registry, collector->pg, &err).ok)
        log_error("what was pulled lately can't be written down", &err);
    begin_if_due(collector);
    collect(collector);
}

static void *collector_main(void *argument)
{
    struct collector *collector = argument;

    while (!is_stopping(collector)) {
        turn(collector);
        rest(collector);
    }
    return NULL;
}

struct result collector_start(struct gateway *gateway, struct collector **collector_out, struct error *err)
{
    OWNED(collector) *collector = memory_zeroed(1, sizeof *collector);
    pthread_condattr_t monotonic;

    if (collector == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for garbage collection");
    collector->gateway = gateway;
    collector->id = uuid_random();
    collector->began_ms = collector->noted_ms = collector->looked_ms = clock_monotonic_ms();
    pthread_mutex_init(&collector->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&collector->woken, &monotonic);
    pthread_condattr_destroy(&monotonic);
    TRY(pg_open(gateway->settings->database, gateway_tables, &collector->pg, err));
    collector->has_thread = pthread_create(&collector->thread, NULL, collector_main, collector) == 0;
    if (!collector->has_thread) return failure(err, ERROR_NO_MEMORY, "can't start the thread that collects garbage");
    *collector_out = GIVE(collector);
    return SUCCESS;
}

void collector_wake(struct collector *collector)
{
    if (collector == NULL) return;
    pthread_mutex_lock(&collector->mutex);
    collector->is_woken = true;
    pthread_cond_signal(&collector->woken);
    pthread_mutex_unlock(&collector->mutex);
}

void collector_free(struct collector *collector)
{
    if (collector == NULL) return;
    pthread_mutex_lock(&collector->mutex);
    collector->is_stopping = true;
    pthread_cond_signal(&collector->woken);
    pthread_mutex_unlock(&collector->mutex);
    if (collector->has_thread) pthread_join(collector->thread, NULL);
    pg_free(collector->pg);
    pthread_cond_destroy(&collector->woken);
    pthread_mutex_destroy(&collector->mutex);
    free(collector);
}
