#include "gateway/http/lease.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "gateway/http/exchange_priv.h"

#define LOOK_MS 400 /* between two looks whether rights have changed: a body ends within a second of that */

/* The list is in the order in which leases end. All leases last equally long, so new and renewed ones go to the end. */
struct lease_renewer {
    struct server *server;
    struct lease_limits limits;
    struct thread thread; /* its mutex is held for at most one decision, never during I/O */
    int64_t wakes_ms;     /* when the thread wakes without a signal; INT64_MAX: never */
    uint64_t rights;      /* callbacks->rights() at the last look */
    struct lease *first, *last;
};

static struct http_exchange *exchange_of(struct lease *lease)
{
    return (struct http_exchange *)(void *)((char *)lease - offsetof(struct http_exchange, lease));
}

static void take_out(struct lease_renewer *renewer, struct lease *lease)
{
    *(lease->previous == NULL ? &renewer->first : &lease->previous->next) = lease->next;
    *(lease->next == NULL ? &renewer->last : &lease->next->previous) = lease->previous;
    lease->next = lease->previous = NULL;
    lease->is_held = false;
}

static void append(struct lease_renewer *renewer, struct lease *lease)
{
    lease->ends_ms = clock_monotonic_ms() + renewer->limits.time_ms;
    lease->previous = renewer->last;
    *(renewer->last == NULL ? &renewer->first : &renewer->last->next) = lease;
    renewer->last = lease;
    lease->is_held = true;
    if (lease->ends_ms < renewer->wakes_ms) (void)pthread_cond_signal(&renewer->thread.woken);
}

/* Under the mutex, so that the connection still belongs to the exchange. */
static void apply_renewal(struct lease_renewer *renewer, struct lease *lease, const char *rule)
{
    if (!lease->is_held) return; /* another thread has noticed that the right is lost */
    take_out(renewer, lease);
    if (rule[0] == '\0') {
        metric_add(&metrics_http[METRIC_LEASES_RENEWED], 1);
        append(renewer, lease);
        return;
    }
    (void)snprintf(lease->rule, sizeof lease->rule, "%s", rule);
    atomic_store(&lease->is_lost, true);
    metric_add(&metrics_http[METRIC_LEASES_LOST], 1);
    watcher_cut(renewer->server->watcher, exchange_of(lease)->connection);
}

/* True: there was a lease to end. Releases the mutex after each lease, so that bodies that begin or end do not wait for all of them. */
static bool end_one(struct lease_renewer *renewer, int64_t now_ms)
{
    struct lease *lease = renewer->first;
    char rule[sizeof lease->rule];

    if (lease == NULL || lease->ends_ms > now_ms) return false;
    exchange_of(lease)->callbacks->right(exchange_of(lease), rule);
    apply_renewal(renewer, lease, rule);
    return true;
}

/* When rights have changed, all leases end now. Bounded by LOOK_MS, so many changes in a second cost no more than two. */
static void look(struct lease_renewer *renewer, int64_t now_ms)
{
    const struct http_exchange *exchange = renewer->first == NULL ? NULL : exchange_of(renewer->first);
    const uint64_t rights = exchange == NULL || exchange->callbacks->rights == NULL ? 0 : exchange->callbacks->rights(exchange);

    if (exchange == NULL || rights == renewer->rights) return;
    renewer->rights = rights;
    for (struct lease *lease = renewer->first; lease != NULL; lease = lease->next)
        if (lease->ends_ms > now_ms) lease->ends_ms = now_ms;
}

static void wait_for_next(struct lease_renewer *renewer)
{
    const int64_t looks_ms = clock_monotonic_ms() + LOOK_MS;
    const int64_t ends_ms = renewer->first == NULL ? INT64_MAX : renewer->first->ends_ms;
    const int64_t wakes_ms = renewer->first != NULL && looks_ms < ends_ms ? looks_ms : ends_ms;

    renewer->wakes_ms = wakes_ms;
    thread_wait(&renewer->thread, wakes_ms);
    renewer->wakes_ms = 0; /* it looks at the list before it waits again */
}

static void *renewer_main(void *argument)
{
    struct lease_renewer *renewer = argument;

    (void)pthread_mutex_lock(&renewer->thread.mutex);
    while (!renewer->thread.is_stopping) {
        if (!end_one(renewer, clock_monotonic_ms())) {
            wait_for_next(renewer);
            look(renewer, clock_monotonic_ms());
            continue;
        }
        (void)pthread_mutex_unlock(&renewer->thread.mutex);
        (void)pthread_mutex_lock(&renewer->thread.mutex);
    }
    (void)pthread_mutex_unlock(&renewer->thread.mutex);
    return NULL;
}

struct result lease_renewer_start(struct server *server, const struct lease_limits *limits, struct lease_renewer **renewer_out,
                                  struct error *err)
{
    struct lease_renewer *renewer = memory_zeroed(1, sizeof *renewer);

    if (renewer == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the leases of bodies");
    renewer->server = server;
    renewer->limits = *limits;
    const struct result result = thread_start(&renewer->thread, renewer_main, renewer, "ends leases", err);
    if (result.ok) *renewer_out = renewer;
    else free(renewer);
    return result;
}

void lease_renewer_stop(struct lease_renewer *renewer)
{
    if (renewer == NULL) return;
    thread_stop(&renewer->thread);
    free(renewer);
}

void lease_begin(struct http_exchange *exchange)
{
    struct lease_renewer *renewer = exchange->server->leases;
    struct lease *lease = &exchange->lease;

    lease->size = 0;
    lease->ends_size = (uint64_t)renewer->limits.size;
    (void)pthread_mutex_lock(&renewer->thread.mutex);
    if (!lease->is_held) append(renewer, lease);
    (void)pthread_mutex_unlock(&renewer->thread.mutex);
}

static void renew(struct http_exchange *exchange)
{
    struct lease_renewer *renewer = exchange->server->leases;
    char rule[sizeof exchange->lease.rule];

    exchange->callbacks->right(exchange, rule);
    (void)pthread_mutex_lock(&renewer->thread.mutex);
    apply_renewal(renewer, &exchange->lease, rule);
    (void)pthread_mutex_unlock(&renewer->thread.mutex);
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
    struct lease_renewer *renewer = exchange->server->leases;
    struct lease *lease = &exchange->lease;

    if (lease->ends_size == 0) return true; /* lease_begin() was not called */
    (void)pthread_mutex_lock(&renewer->thread.mutex);
    if (lease->is_held) take_out(renewer, lease);
    (void)pthread_mutex_unlock(&renewer->thread.mutex);
    return !atomic_load(&lease->is_lost);
}
