/*
 * Requests that wait for a time. They hold no worker, so waiting requests of one tenant keep no worker from others. There are at most as
 * many as connections.
 */
#include "gateway/pipeline/pause.h"

#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/thread.h"
#include "gateway/pipeline/exchange_priv.h"

#define BELLS 64 /* topics that share one make each other's requests look once more, and nothing else */

/* The newest round of waking for the topics that share it. */
struct bell {
    uint64_t topic, round; /* a hash of the last one */
    uint64_t rung;         /* how often that has changed */
};

struct pauser {
    struct thread thread;
    struct bell bells[BELLS];
    bool is_closing;        /* nothing may wait for a topic any more */
    struct exchange *first; /* in the order of their ends */
};

static struct bell *bell_of(struct pauser *pauser, const char *topic, uint64_t *hash_out)
{
    *hash_out = hash_add(HASH_BEGIN, topic);
    return &pauser->bells[hash_bucket(*hash_out, BELLS)];
}

void request_listen(struct request *request, const char *topic)
{
    struct pauser *pauser = request->gateway->pauser;
    uint64_t hash = 0;

    (void)pthread_mutex_lock(&pauser->thread.mutex);
    request->rung_before = bell_of(pauser, topic, &hash)->rung;
    (void)pthread_mutex_unlock(&pauser->thread.mutex);
    request->is_listening = true;
}

/* With the mutex. Whether a waker has looked for the request since it listens, and could not find it. */
static bool was_missed(struct pauser *pauser, struct request *request)
{
    uint64_t hash = 0;
    const bool listened = request->is_listening && request->wait_topic != NULL;

    request->is_listening = false;
    return listened && bell_of(pauser, request->wait_topic, &hash)->rung != request->rung_before;
}

/* With the mutex. The steps of one round ring once. */
static void ring(struct pauser *pauser, const char *topic, uint64_t round)
{
    uint64_t hash = 0;
    struct bell *bell = bell_of(pauser, topic, &hash);

    if (bell->topic == hash && bell->round == round) return;
    *bell = (struct bell){hash, round, bell->rung + 1};
}

void request_wait(struct request *request, int64_t milliseconds)
{
    request->wait_ms = milliseconds;
    request->wait_topic = NULL;
    request->waits++;
}

void request_wait_for(struct request *request, const char *topic, int64_t milliseconds)
{
    request_wait(request, milliseconds);
    request->wait_topic = topic;
}

bool request_may_wait(const struct request *request)
{
    struct pauser *pauser = request->gateway->pauser;

    (void)pthread_mutex_lock(&pauser->thread.mutex);
    const bool may = !pauser->is_closing;
    (void)pthread_mutex_unlock(&pauser->thread.mutex);
    return may;
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
    if ((pauser->is_closing && exchange->request.wait_topic != NULL) || was_missed(pauser, &exchange->request))
        exchange->pause.ends_ms = 0;
    put_in(pauser, exchange);
    if (pauser->first == exchange) (void)pthread_cond_signal(&pauser->thread.woken);
    (void)pthread_mutex_unlock(&pauser->thread.mutex);
}

struct result pause_again(struct exchange *exchange, int64_t milliseconds, void (*then)(struct exchange *exchange),
                          struct error *err)
{
    if (!request_may_wait(&exchange->request)) return failure(err, ERROR_UNAVAILABLE, "the server stops");
    request_wait(&exchange->request, milliseconds);
    exchange->step--;
    pause_begin(exchange, then);
    return SUCCESS;
}

/* ---- waking ---- */

static bool waits_for(const struct exchange *exchange, const char *topic, uint64_t round)
{
    const struct request *request = &exchange->request;

    if (request->wait_topic == NULL || request->wait_round >= round) return false;
    return topic == NULL || strcmp(request->wait_topic, topic) == 0;
}

/* With the mutex. Takes the first ones out, and puts them at the front, so the thread lets them go on next. */
static size_t wake(struct pauser *pauser, const char *topic, uint64_t round, size_t most)
{
    struct exchange *woken = NULL, **end = &woken;
    size_t count = 0;

    for (struct exchange **position = &pauser->first; *position != NULL && count < most;) {
        struct exchange *exchange = *position;
        if (!waits_for(exchange, topic, round)) {
            position = &exchange->pause.next;
            continue;
        }
        *position = exchange->pause.next;
        exchange->pause.ends_ms = 0;
        exchange->request.wait_round = round;
        *end = exchange;
        end = &exchange->pause.next;
        count++;
    }
    *end = pauser->first;
    pauser->first = woken;
    if (count > 0) (void)pthread_cond_signal(&pauser->thread.woken);
    return count;
}

size_t pause_wake(struct gateway *gateway, const char *topic, uint64_t round, size_t most)
{
    struct pauser *pauser = gateway->pauser;

    (void)pthread_mutex_lock(&pauser->thread.mutex);
    ring(pauser, topic, round);
    const size_t count = wake(pauser, topic, round, most);
    (void)pthread_mutex_unlock(&pauser->thread.mutex);
    return count;
}

void pauser_close(struct pauser *pauser)
{
    (void)pthread_mutex_lock(&pauser->thread.mutex);
    pauser->is_closing = true;
    (void)wake(pauser, NULL, UINT64_MAX, SIZE_MAX);
    (void)pthread_mutex_unlock(&pauser->thread.mutex);
}
