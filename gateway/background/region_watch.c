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

#define LOOK_EVERY_S 5

struct places {
    struct gateway *gateway;
    pthread_mutex_t mutex;
    pthread_cond_t woken;
    pthread_t thread;
    bool has_thread, is_stopping; /* the second under the mutex */
    char said[256]; /* what the log said last, so that it says it once */
};

static void look(struct places *places)
{
    struct error err = {0};

    if (registry_check_places(places->gateway->registry, &err).ok) {
        if (places->said[0] != '\0') log_line(LOG_INFO, "all regions can be used again", NULL);
        places->said[0] = '\0';
    } else if (strcmp(places->said, err.message) != 0) {
        log_error("a region can't be used", &err);
        (void)snprintf(places->said, sizeof places->said, "%s", err.message);
    }
}

/* False: it is time to end. */
static bool rest(struct places *places)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += LOOK_EVERY_S;
    (void)pthread_mutex_lock(&places->mutex);
    while (!places->is_stopping && pthread_cond_timedwait(&places->woken, &places->mutex, &until) == 0) continue;
    const bool goes_on = !places->is_stopping;
    (void)pthread_mutex_unlock(&places->mutex);
    return goes_on;
}

static void *places_main(void *argument)
{
    struct places *places = argument;

    while (rest(places)) look(places);
    return NULL;
}

struct result places_start(struct gateway *gateway, struct places **places_out, struct error *err)
{
    OWNED(places) *places = memory_zeroed(1, sizeof *places);

    if (places == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to look after regions");
    places->gateway = gateway;
    (void)pthread_mutex_init(&places->mutex, NULL);
    clock_condition(&places->woken);
    places->has_thread = pthread_create(&places->thread, NULL, places_main, places) == 0;
    if (!places->has_thread) return failure(err, ERROR_NO_MEMORY, "can't start a thread for regions");
    *places_out = GIVE(places);
    return SUCCESS;
}

void places_free(struct places *places)
{
    if (places == NULL) return;
    (void)pthread_mutex_lock(&places->mutex);
    places->is_stopping = true;
    (void)pthread_cond_signal(&places->woken);
    (void)pthread_mutex_unlock(&places->mutex);
    if (places->has_thread) (void)pthread_join(places->thread, NULL);
    (void)pthread_cond_destroy(&places->woken);
    (void)pthread_mutex_destroy(&places->mutex);
    free(places);
}
