/*
 * Requests that wait for a time. They hold no worker, so waiting requests of one tenant keep no worker from others. There are at most as
 * many as connections, and none waits for more than a few seconds.
 */
#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "gateway/pipeline/exchange_priv.h"

struct pauser {
    pthread_mutex_t mutex;
    pthread_cond_t woken;
    pthread_t thread;
    bool is_stopping;
    struct exchange *first; /* in the order of their ends */
};

void request_wait(struct request *request, int64_t milliseconds)
{
    request->wait_ms = milliseconds;
    request->waits++;
}

static void put_in(struct pauser *pauser, struct exchange *exchange)
{
    struct exchange **position = &pauser->first;

    while (*position != NULL && (*position)->pause.ends_ms <= exchange->pause.ends_ms) position = &(*position)->pause.next;
    exchange->pause.next = *position;
    *position = exchange;
}

/* With the mutex. NULL: the thread must end. */
static struct exchange *wait_for_one(struct pauser *pauser)
{
    while (!pauser->is_stopping) {
        struct exchange *first = pauser->first;
        const int64_t ends_ms = first == NULL ? 0 : first->pause.ends_ms;
        const struct timespec until = {.tv_sec = (time_t)(ends_ms / 1000), .tv_nsec = (long)(ends_ms % 1000) * 1000000L};

        if (first != NULL && ends_ms <= clock_monotonic_ms()) {
            pauser->first = first->pause.next;
            return first;
        }
        if (first == NULL) (void)pthread_cond_wait(&pauser->woken, &pauser->mutex);
        else (void)pthread_cond_timedwait(&pauser->woken, &pauser->mutex, &until);
    }
    return NULL;
}

static void *pauser_main(void *argument)
{
    struct pauser *pauser = argument;

    (void)pthread_mutex_lock(&pauser->mutex);
    for (struct exchange *exchange; (exchange = wait_for_one(pauser)) != NULL;) {
        (void)pthread_mutex_unlock(&pauser->mutex);
        if (exchange->request.response != NULL) exchange_answer(exchange, NULL);
        else exchange->pause.then(exchange);
        (void)pthread_mutex_lock(&pauser->mutex);
    }
    (void)pthread_mutex_unlock(&pauser->mutex);
    return NULL;
}

static void pauser_free(struct pauser *pauser)
{
    (void)pthread_cond_destroy(&pauser->woken);
    (void)pthread_mutex_destroy(&pauser->mutex);
    free(pauser);
}

struct result pauser_start(struct pauser **pauser_out, struct error *err)
{
    struct pauser *pauser = memory_zeroed(1, sizeof *pauser);

    if (pauser == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for requests that wait");
    (void)pthread_mutex_init(&pauser->mutex, NULL);
    clock_condition(&pauser->woken);
    if (pthread_create(&pauser->thread, NULL, pauser_main, pauser) != 0) {
        pauser_free(pauser);
        return failure(err, ERROR_NO_MEMORY, "can't start the thread for requests that wait");
    }
    *pauser_out = pauser;
    return SUCCESS;
}

void pauser_stop(struct pauser *pauser)
{
    if (pauser == NULL) return;
    (void)pthread_mutex_lock(&pauser->mutex);
    pauser->is_stopping = true;
    (void)pthread_cond_signal(&pauser->woken);
    (void)pthread_mutex_unlock(&pauser->mutex);
    (void)pthread_join(pauser->thread, NULL);
    pauser_free(pauser);
}

void pause_begin(struct exchange *exchange, void (*then)(struct exchange *exchange))
{
    struct pauser *pauser = exchange->request.gateway->pauser;

    exchange->pause.then = then;
    exchange->pause.ends_ms = clock_monotonic_ms() + exchange->request.wait_ms;
    (void)pthread_mutex_lock(&pauser->mutex);
    put_in(pauser, exchange);
    if (pauser->first == exchange) (void)pthread_cond_signal(&pauser->woken);
    (void)pthread_mutex_unlock(&pauser->mutex);
}
