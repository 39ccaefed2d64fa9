/* The life of an exchange: from the request line to its end, and from its event thread to workers and back. */
#include "gateway/http/exchange.h"

#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "crypto/secret.h"
#include "gateway/http/exchange_priv.h"

static struct connection *connection_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info == NULL ? NULL : info->socket_context;
}

const struct sockaddr *http_client(const struct http_exchange *exchange)
{
    const struct sockaddr_storage *client = &exchange->connection->client;

    return client->ss_family == AF_UNSPEC ? NULL : (const struct sockaddr *)client;
}

const char *http_client_confirmation(const struct http_exchange *exchange)
{
    return exchange->connection->confirmation;
}

const char *http_client_authorities(const struct http_exchange *exchange)
{
    return exchange->connection->authorities;
}

const char *http_client_listener(const struct http_exchange *exchange)
{
    return exchange->connection->listener == NULL ? "" : exchange->connection->listener;
}

const char *http_client_names(const struct http_exchange *exchange)
{
    return exchange->connection->names;
}

const struct runner_certificate *http_client_runner(const struct http_exchange *exchange)
{
    const struct runner_certificate *runner = &exchange->connection->runner;

    return runner->not_after_ms == 0 ? NULL : runner;
}

/* False: out of memory. */
static bool take_request_target(struct http_exchange *exchange, const char *target)
{
    const struct http_limits *limits = &exchange->server->options.limits;
    struct error err = {0};

    if (!arena_new(EXCHANGE_MEMORY, &exchange->arena, &err).ok) return false;
    exchange->request_target_length = strlen(target);
    if (exchange->request_target_length > limits->path + limits->query) return true;
    exchange->request_target = arena_copy_text(exchange->arena, bytes_of_text(target));
    return exchange->request_target != NULL;
}

static const struct http_callbacks *callbacks_for(const struct http_options *options, const char *target)
{
    const struct http_callbacks *others = options->choose == NULL ? NULL : options->choose(target);

    return others == NULL ? options->callbacks : others;
}

static struct http_exchange *exchange_new(struct server *server, const struct http_callbacks *callbacks,
                                          struct connection *connection, struct MHD_Connection *mhd)
{
    struct http_exchange *exchange = memory_zeroed(1, callbacks->exchange_size);

    if (exchange == NULL) return NULL;
    exchange->callbacks = callbacks;
    exchange->context = server->options.context;
    exchange->server = server;
    exchange->connection = connection;
    exchange->mhd = mhd;
    exchange->begun_us = clock_monotonic_us();
    pthread_mutex_init(&exchange->mutex, NULL);
    return exchange;
}

static void exchange_free(struct http_exchange *exchange)
{
    struct server *server = exchange->server;

    ring_done(&exchange->transfer.ring);
    arena_free(exchange->arena);
    pthread_mutex_destroy(&exchange->mutex);
    free(exchange);
    atomic_fetch_sub(&server->exchanges, 1);
}

void *exchange_begin(void *context, const char *target, struct MHD_Connection *mhd)
{
    struct connection *connection = connection_of(mhd);
    const struct server *server = context;
    struct http_exchange *exchange =
        connection == NULL ? NULL : exchange_new(context, callbacks_for(&server->options, target), connection, mhd);

    if (exchange == NULL) return NULL;
    atomic_fetch_add(&exchange->server->exchanges, 1);
    connection_enter(connection, CONNECTION_HEAD);
    if (!take_request_target(exchange, target)) {
        exchange_free(exchange);
        return NULL;
    }
    metric_add(&metrics_http[METRIC_REQUESTS_NOW], 1);
    exchange->callbacks->begin(exchange);
    connection->exchange = exchange;
    exchange->number = ++connection->requests;
    return exchange;
}

void http_suspend(struct http_exchange *exchange)
{
    atomic_fetch_add(&exchange->server->suspended, 1);
    connection_enter(exchange->connection, CONNECTION_OURS);
    MHD_suspend_connection(exchange->mhd);
}

void http_resume(struct http_exchange *exchange, enum http_phase phase)
{
    struct server *server = exchange->server;

    exchange->phase = phase;
    connection_enter(exchange->connection, phase == PHASE_GATHER || phase == PHASE_STREAM ? CONNECTION_BODY : CONNECTION_ANSWER);
    MHD_resume_connection(exchange->mhd); /* from here on the event thread may free it */
    atomic_fetch_sub(&server->suspended, 1);
}

static void run_job(struct work_job *job, void *worker_state)
{
    struct http_exchange *exchange = (struct http_exchange *)(void *)((char *)job - offsetof(struct http_exchange, job));

    exchange->callbacks->wake(worker_state);
    exchange->next(exchange, worker_state);
}

bool http_submit(struct http_exchange *exchange, struct work_pool *pool, void (*next)(struct http_exchange *, void *))
{
    struct error err = {0};

    exchange->next = next;
    exchange->job.run = run_job;
    exchange->queued_ms = clock_monotonic_ms();
    return work_submit(pool, &exchange->job, &err).ok;
}

void exchange_drop_body(struct http_exchange *exchange)
{
    struct buffer *body = &exchange->body;

    if (body->data == NULL) return;
    metric_add(&metrics_http[METRIC_GATHERED], -(int64_t)body->capacity);
    (void)exchange->callbacks->hold(exchange, -(int64_t)body->capacity);
    secret_wipe(body->data, body->capacity); /* a form may have a password */
    buffer_done(body);
}

static void end(struct http_exchange *exchange, void *worker_state, bool is_on_worker)
{
    metric_add(&metrics_http[METRIC_REQUESTS_NOW], -1);
    metric_add(&metrics_http[METRIC_BYTES_IN], (int64_t)exchange->body_bytes);
    metric_add(&metrics_http[METRIC_BYTES_OUT], (int64_t)exchange->sent_bytes);
    exchange_drop_body(exchange);
    exchange->callbacks->end(exchange, worker_state, is_on_worker);
    exchange_free(exchange);
}

static void end_on_worker(struct http_exchange *exchange, void *worker_state)
{
    end(exchange, worker_state, true);
}

/* Not the server's senders: a slow disk would block all of them. */
static struct work_pool *ending(const struct http_exchange *exchange)
{
    const struct http_options *options = &exchange->server->options;
    const struct response *answer = exchange->callbacks->answer(exchange);
    const struct response_source *source = answer == NULL ? NULL : answer->source;

    if (source == NULL) return exchange->receivers == NULL ? options->receivers : exchange->receivers;
    return source->senders == NULL ? options->readers : source->senders;
}

void exchange_leave(struct http_exchange *exchange)
{
    const struct http_callbacks *callbacks = exchange->callbacks;
    struct work_pool *pool = ending(exchange);

    if (exchange->end != HTTP_CUT) callbacks->leave(exchange);
    if (callbacks->ends_on_worker(exchange) && http_submit(exchange, pool, end_on_worker)) return;
    end(exchange, NULL, false);
}

/* In PHASE_STREAM the body is not complete. A body that failed has its answer already, so it was not cut. */
static enum http_end end_of(const struct http_exchange *exchange)
{
    return exchange->phase == PHASE_STREAM && !exchange->transfer.has_failed ? HTTP_CUT : HTTP_ENDED;
}

void exchange_end(void *server, struct MHD_Connection *mhd, void **request_context, enum MHD_RequestTerminationCode why)
{
    struct http_exchange *exchange = *request_context;

    (void)server;
    (void)mhd;
    if (exchange == NULL) return;
    *request_context = NULL;
    exchange->is_right_lost = !lease_end(exchange);
    exchange->connection->exchange = NULL;
    exchange->is_refused_by_library =
        why == MHD_REQUEST_TERMINATED_WITH_ERROR && exchange->phase != PHASE_SENT && exchange->body_state != HTTP_BODY_GIVEN_UP;
    exchange->connection->has_requested = true;
    exchange->connection->must_linger = exchange->body_state != HTTP_BODY_DONE && exchange->phase == PHASE_SENT;
    transport_rest(&exchange->connection->transport);
    connection_enter(exchange->connection, CONNECTION_WAITING);

    pthread_mutex_lock(&exchange->mutex);
    exchange->end = end_of(exchange);
    const bool is_busy = exchange->transfer.is_busy;
    pthread_mutex_unlock(&exchange->mutex);
    if (!is_busy) exchange_leave(exchange); /* else the job that runs sees the end and does it */
}

bool http_is_malformed(const struct http_exchange *exchange)
{
    const struct framer *framer = &exchange->connection->framer;

    return framer->refusal.status != 0 && framer->requests == exchange->number;
}

bool exchange_sends_too_much(const struct http_exchange *exchange)
{
    const uint64_t most = (uint64_t)exchange->server->options.drain_size_max;
    const uint64_t length = exchange->framing.length; /* 0 with chunks: unknown */

    return exchange->drained_bytes > most || (length > exchange->body_bytes && length - exchange->body_bytes > most);
}
