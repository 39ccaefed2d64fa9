#include "gateway/http/lease.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "gateway/http/exchange_priv.h"

/* The list is in the order in which leases end. All leases last equally long, so new and renewed ones go to the end. */
struct lease_keeper {
    struct server *server;
    struct lease_limits limits;
    pthread_mutex_t mutex; /* held for at most one decision, never over I/O */
    pthread_cond_t woken;
    pthread_t thread;
    bool is_stopping;
    int64_t wakes_ms; /* when the thread wakes without a signal; INT64_MAX: never */
    struct lease *first, *last;
};

static struct http_exchange *exchange_of(struct lease *lease)
{
    return (struct http_exchange *)(void *)((char *)lease - offsetof(struct http_exchange, lease));
}

static void take_out(struct lease_keeper *keeper, struct lease *lease)
{
    *(lease->previous == NULL ? &keeper->first : &lease->previous->next) = lease->next;
    *(lease->next == NULL ? &keeper->last : &lease->next->previous) = lease->previous;
    lease->next = lease->previous = NULL;
    lease->is_held = false;
}

static void put_last(struct lease_keeper *keeper, struct lease *lease)
{
    lease->ends_ms = clock_monotonic_ms() + keeper->limits.time_ms;
    lease->previous = keeper->last;
    *(keeper->last == NULL ? &keeper->first : &keeper->last->next) = lease;
    keeper->last = lease;
    lease->is_held = true;
    if (lease->ends_ms < keeper->wakes_ms) (void)pthread_cond_signal(&keeper->woken);
}

/* Under the mutex, so that the connection still belongs to the exchange. */
static void settle(struct lease_keeper *keeper, struct lease *lease, const char *rule)
{
    if (!lease->is_held) return; /* another thread found it lost */
    take_out(keeper, lease);
    if (rule[0] == '\0') {
        metric_add(&metrics_http[METRIC_LEASES_RENEWED], 1);
        put_last(keeper, lease);
        return;
    }
    (void)snprintf(lease->rule, sizeof lease->rule, "%s", rule);
    atomic_store(&lease->is_lost, true);
    metric_add(&metrics_http[METRIC_LEASES_LOST], 1);
    watcher_cut(keeper->server->watcher, exchange_of(lease)->connection);
}

/* True: there was a lease to end. Releases the mutex after each lease, so that bodies that begin or end do not wait for all of them. */
static bool end_one(struct lease_keeper *keeper, int64_t now_ms)
{
    struct lease *lease = keeper->first;
    char rule[sizeof lease->rule];

    if (lease == NULL || lease->ends_ms > now_ms) return false;
    exchange_of(lease)->callbacks->right(exchange_of(lease), rule);
    settle(keeper, lease, rule);
    return true;
}

static void wait_for_next(struct lease_keeper *keeper)
{
    const int64_t wakes_ms = keeper->first == NULL ? INT64_MAX : keeper->first->ends_ms;
    const struct timespec until = {.tv_sec = (time_t)(wakes_ms / 1000), .tv_nsec = (long)(wakes_ms % 1000) * 1000000L};

    keeper->wakes_ms = wakes_ms;
    if (keeper->first == NULL) (void)pthread_cond_wait(&keeper->woken, &keeper->mutex);
    else (void)pthread_cond_timedwait(&keeper->woken, &keeper->mutex, &until);
    keeper->wakes_ms = 0; /* it looks at the list before it waits again */
}

static void *keeper_main(void *argument)
{
    struct lease_keeper *keeper = argument;

    (void)pthread_mutex_lock(&keeper->mutex);
    while (!keeper->is_stopping) {
        if (!end_one(keeper, clock_monotonic_ms())) {
            wait_for_next(keeper);
            continue;
        }
        (void)pthread_mutex_unlock(&keeper->mutex);
        (void)pthread_mutex_lock(&keeper->mutex);
    }
    (void)pthread_mutex_unlock(&keeper->mutex);
    return NULL;
}

static void keeper_free(struct lease_keeper *keeper)
{
    (void)pthread_cond_destroy(&keeper->woken);
    (void)pthread_mutex_destroy(&keeper->mutex);
    free(keeper);
}

struct result lease_keeper_start(struct server *server, const struct lease_limits *limits, struct lease_keeper **keeper_out,
                                 struct error *err)
{
    struct lease_keeper *keeper = memory_zeroed(1, sizeof *keeper);

    if (keeper == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the leases of bodies");
    keeper->server = server;
    keeper->limits = *limits;
    (void)pthread_mutex_init(&keeper->mutex, NULL);
    clock_condition(&keeper->woken);
    if (pthread_create(&keeper->thread, NULL, keeper_main, keeper) != 0) {
        keeper_free(keeper);
        return failure(err, ERROR_NO_MEMORY, "can't start the thread that ends leases");
    }
    *keeper_out = keeper;
    return SUCCESS;
}

void lease_keeper_stop(struct lease_keeper *keeper)
{
    if (keeper == NULL) return;
    (void)pthread_mutex_lock(&keeper->mutex);
    keeper->is_stopping = true;
    (void)pthread_cond_signal(&keeper->woken);
    (void)pthread_mutex_unlock(&keeper->mutex);
    (void)pthread_join(keeper->thread, NULL);
    keeper_free(keeper);
}

void lease_begin(struct http_exchange *exchange)
{
    struct lease_keeper *keeper = exchange->server->leases;
    struct lease *lease = &exchange->lease;

    lease->size = 0;
    lease->ends_size = (uint64_t)keeper->limits.size;
    (void)pthread_mutex_lock(&keeper->mutex);
    if (!lease->is_held) put_last(keeper, lease);
    (void)pthread_mutex_unlock(&keeper->mutex);
}

static void renew(struct http_exchange *exchange)
{
    struct lease_keeper *keeper = exchange->server->leases;
    char rule[sizeof exchange->lease.rule];

    exchange->callbacks->right(exchange, rule);
    (void)pthread_mutex_lock(&keeper->mutex);
    settle(keeper, &exchange->lease, rule);
    (void)pthread_mutex_unlock(&keeper->mutex);
}

bool lease_move(struct http_exchange *exchange, uint64_t bytes)
{
    struct lease *lease = &exchange->lease;

    lease->size += bytes;
    if (lease->ends_size != 0 && lease->size >= lease->ends_size) {
        lease->ends_size = lease->size + (uint64_t)exchange->server->leases->limits.size;
        renew(exchange);
    }
    return !atomic_load(&lease->is_lost);
}

bool lease_end(struct http_exchange *exchange)
{
    struct lease_keeper *keeper = exchange->server->leases;
    struct lease *lease = &exchange->lease;

    if (lease->ends_size == 0) return true; /* lease_begin() was not called */
    (void)pthread_mutex_lock(&keeper->mutex);
    if (lease->is_held) take_out(keeper, lease);
    (void)pthread_mutex_unlock(&keeper->mutex);
    return !atomic_load(&lease->is_lost);
}
