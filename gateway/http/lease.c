#include "gateway/http/lease.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "gateway/http/exchange_priv.h"

/* The list is in the order in which leases end. All leases last equally long, so new and renewed ones go to the end. */
struct lease_keeper {
    struct server *server;
    struct lease_limits limits;
    struct thread thread; /* its mutex is held for at most one decision, never over I/O */
    int64_t wakes_ms;     /* when the thread wakes without a signal; INT64_MAX: never */
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
    if (lease->ends_ms < keeper->wakes_ms) (void)pthread_cond_signal(&keeper->thread.woken);
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

    keeper->wakes_ms = wakes_ms;
    thread_wait(&keeper->thread, wakes_ms);
    keeper->wakes_ms = 0; /* it looks at the list before it waits again */
}

static void *keeper_main(void *argument)
{
    struct lease_keeper *keeper = argument;

    (void)pthread_mutex_lock(&keeper->thread.mutex);
    while (!keeper->thread.is_stopping) {
        if (!end_one(keeper, clock_monotonic_ms())) {
            wait_for_next(keeper);
            continue;
        }
        (void)pthread_mutex_unlock(&keeper->thread.mutex);
        (void)pthread_mutex_lock(&keeper->thread.mutex);
    }
    (void)pthread_mutex_unlock(&keeper->thread.mutex);
    return NULL;
}

struct result lease_keeper_start(struct server *server, const struct lease_limits *limits, struct lease_keeper **keeper_out,
                                 struct error *err)
{
    struct lease_keeper *keeper = memory_zeroed(1, sizeof *keeper);

    if (keeper == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the leases of bodies");
    keeper->server = server;
    keeper->limits = *limits;
    const struct result result = thread_start(&keeper->thread, keeper_main, keeper, "ends leases", err);
    if (result.ok) *keeper_out = keeper;
    else free(keeper);
    return result;
}

void lease_keeper_stop(struct lease_keeper *keeper)
{
    if (keeper == NULL) return;
    thread_stop(&keeper->thread);
    free(keeper);
}

void lease_begin(struct http_exchange *exchange)
{
    struct lease_keeper *keeper = exchange->server->leases;
    struct lease *lease = &exchange->lease;

    lease->size = 0;
    lease->ends_size = (uint64_t)keeper->limits.size;
    (void)pthread_mutex_lock(&keeper->thread.mutex);
    if (!lease->is_held) put_last(keeper, lease);
    (void)pthread_mutex_unlock(&keeper->thread.mutex);
}

static void renew(struct http_exchange *exchange)
{
    struct lease_keeper *keeper = exchange->server->leases;
    char rule[sizeof exchange->lease.rule];

    exchange->callbacks->right(exchange, rule);
    (void)pthread_mutex_lock(&keeper->thread.mutex);
    settle(keeper, &exchange->lease, rule);
    (void)pthread_mutex_unlock(&keeper->thread.mutex);
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
    (void)pthread_mutex_lock(&keeper->thread.mutex);
    if (lease->is_held) take_out(keeper, lease);
    (void)pthread_mutex_unlock(&keeper->thread.mutex);
    return !atomic_load(&lease->is_lost);
}
