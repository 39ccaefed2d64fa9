/*
 * Requests that wait for a time. They hold no worker, so waiting requests of one tenant keep no worker from others. There are at most as
 * many as connections, and none waits for more than a few seconds.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "gateway/pipeline/exchange_priv.h"

struct pauser {
    struct thread thread;
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
    while (!pauser->thread.is_stopping) {
        struct exchange *first = pauser->first;
        const int64_t ends_ms = first == NULL ? INT64_MAX : first->pause.ends_ms;

        if (ends_ms <= clock_monotonic_ms()) {
            pauser->first = first->pause.next;
            return first;
        }
        thread_wait(&pauser->thread, ends_ms);
    }
    return NULL;
}

static void *pauser_main(void *argument)
{
    struct pauser *pauser = argument;

    (void)pthread_mutex_lock(&pauser->thread.mutex);
    for (struct exchange *exchange; (exchange = wait_for_one(pauser)) != NULL;) {
        (void)pthread_mutex_unlock(&pauser->thread.mutex);
        if (exchange->request.response != NULL) exchange_answer(exchange, NULL);
        else exchange->pause.then(exchange);
        (void)pthread_mutex_lock(&pauser->thread.mutex);
    }
    (void)pthread_mutex_unlock(&pauser->thread.mutex);
    return NULL;
}

struct result pauser_start(struct pauser **pauser_out, struct error *err)
{
    struct pauser *pauser = memory_zeroed(1, sizeof *pauser);

    if (pauser == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for requests that wait");
    const struct result result = thread_start(&pauser->thread, pauser_main, pauser, "answers requests that wait", err);
    if (result.ok) *pauser_out = pauser;
    else free(pauser);
    return result;
}

void pauser_stop(struct pauser *pauser)
{
    if (pauser == NULL) return;
    thread_stop(&pauser->thread);
    free(pauser);
}

void pause_begin(struct exchange *exchange, void (*then)(struct exchange *exchange))
{
    struct pauser *pauser = exchange->request.gateway->pauser;

    exchange->pause.then = then;
    exchange->pause.ends_ms = clock_monotonic_ms() + exchange->request.wait_ms;
    (void)pthread_mutex_lock(&pauser->thread.mutex);
    put_in(pauser, exchange);
    if (pauser->first == exchange) (void)pthread_cond_signal(&pauser->thread.woken);
    (void)pthread_mutex_unlock(&pauser->thread.mutex);
}
