#include "gateway/background/region_watch.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gateway/pipeline/gateway.h"
#include "registry/registry.h"

#define CHECK_INTERVAL_S 5

struct region_watch {
    struct gateway *gateway;
    pthread_mutex_t mutex;
    pthread_cond_t woken;
    pthread_t thread;
    bool has_thread, is_stopping; /* the second under the mutex */
    char said[256];               /* the newest log line, so that it is not repeated */
};

static void check_stores(struct region_watch *watch)
{
    struct error err = {0};

    if (registry_check_stores(watch->gateway->registry, &err).ok) {
        if (watch->said[0] != '\0') log_line(LOG_INFO, "all regions can be used again", NULL);
        watch->said[0] = '\0';
    } else if (strcmp(watch->said, err.message) != 0) {
        log_error("a region can't be used", &err);
        (void)snprintf(watch->said, sizeof watch->said, "%s", err.message);
    }
}

/* False: the thread must end. */
static bool wait_for_interval(struct region_watch *watch)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += CHECK_INTERVAL_S;
    (void)pthread_mutex_lock(&watch->mutex);
    while (!watch->is_stopping && pthread_cond_timedwait(&watch->woken, &watch->mutex, &until) == 0) continue;
    const bool goes_on = !watch->is_stopping;
    (void)pthread_mutex_unlock(&watch->mutex);
    return goes_on;
}

static void *region_watch_main(void *argument)
{
    struct region_watch *watch = argument;

    while (wait_for_interval(watch)) check_stores(watch);
    return NULL;
}

struct result region_watch_start(struct gateway *gateway, struct region_watch **watch_out, struct error *err)
{
    OWNED(region_watch) *watch = memory_zeroed(1, sizeof *watch);

    if (watch == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to check_stores after regions");
    watch->gateway = gateway;
    (void)pthread_mutex_init(&watch->mutex, NULL);
    clock_condition(&watch->woken);
    watch->has_thread = pthread_create(&watch->thread, NULL, region_watch_main, watch) == 0;
    if (!watch->has_thread) return failure(err, ERROR_NO_MEMORY, "can't start a thread for regions");
    *watch_out = GIVE(watch);
    return SUCCESS;
}

void region_watch_free(struct region_watch *watch)
{
    if (watch == NULL) return;
    (void)pthread_mutex_lock(&watch->mutex);
    watch->is_stopping = true;
    (void)pthread_cond_signal(&watch->woken);
    (void)pthread_mutex_unlock(&watch->mutex);
    if (watch->has_thread) (void)pthread_join(watch->thread, NULL);
    (void)pthread_cond_destroy(&watch->woken);
    (void)pthread_mutex_destroy(&watch->mutex);
    free(watch);
}
