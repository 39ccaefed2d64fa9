#include "gateway/housekeeper.h"

#include <pthread.h>
#include <time.h>

#include "base/log.h"
#include "base/memory.h"
#include "gateway/tables.h"
#include "registry/registry.h"
#include "storage/pg.h"

#define ROUND_SECONDS 60

struct housekeeper {
    const struct gateway *gateway;
    struct pg *pg;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool is_stopping, is_running;
};

/* True when it is time to end. */
static bool rest(struct housekeeper *housekeeper)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ROUND_SECONDS;
    (void)pthread_mutex_lock(&housekeeper->lock);
    int waited = 0;
    while (!housekeeper->is_stopping && waited == 0)
        waited = pthread_cond_timedwait(&housekeeper->wake, &housekeeper->lock, &until);
    const bool is_stopping = housekeeper->is_stopping;
    (void)pthread_mutex_unlock(&housekeeper->lock);
    return is_stopping;
}

static struct result tidy(struct housekeeper *housekeeper, size_t *count_out, struct error *err)
{
    if (pg_is_broken(housekeeper->pg)) TRY(pg_reopen(housekeeper->pg, err));
    return registry_tidy(housekeeper->gateway->registry, housekeeper->pg, count_out, err);
}

static void *work(void *argument)
{
    struct housekeeper *housekeeper = argument;

    while (!rest(housekeeper)) {
        struct error err = {0};
        size_t count = 0;
        if (!tidy(housekeeper, &count, &err).ok) log_error("tidying will be tried again", &err);
    }
    return NULL;
}

/* Deadlines on the clock that never steps. */
static void init_wake(pthread_cond_t *wake)
{
    pthread_condattr_t attributes;

    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(wake, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

struct result housekeeper_new(const struct gateway *gateway, struct housekeeper **housekeeper_out, struct error *err)
{
    OWNED(housekeeper) *housekeeper = memory_zeroed(1, sizeof *housekeeper);

    if (housekeeper == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the housekeeper");
    housekeeper->gateway = gateway;
    (void)pthread_mutex_init(&housekeeper->lock, NULL);
    init_wake(&housekeeper->wake);
    TRY(pg_open(gateway->settings->database, gateway_tables, &housekeeper->pg, err));
    if (pthread_create(&housekeeper->thread, NULL, work, housekeeper) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for the housekeeper's thread");
    housekeeper->is_running = true;
    *housekeeper_out = GIVE(housekeeper);
    return SUCCESS;
}

void housekeeper_free(struct housekeeper *housekeeper)
{
    if (housekeeper == NULL) return;
    (void)pthread_mutex_lock(&housekeeper->lock);
    housekeeper->is_stopping = true;
    (void)pthread_cond_signal(&housekeeper->wake);
    (void)pthread_mutex_unlock(&housekeeper->lock);
    if (housekeeper->is_running) (void)pthread_join(housekeeper->thread, NULL);
    pg_free(housekeeper->pg);
    (void)pthread_cond_destroy(&housekeeper->wake);
    (void)pthread_mutex_destroy(&housekeeper->lock);
    free(housekeeper);
}
