/* The life of a request on its connection: what libmicrohttpd calls, and the way to the workers and back. */
#include "gateway/http/exchange_priv.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gateway/http/server_priv.h"
#include "gateway/http/tls_priv.h"

static struct link *link_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info == NULL ? NULL : info->socket_context;
}

static void take_address(struct request *request, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info == NULL ? NULL : info->client_addr;

    (void)snprintf(request->client_address, sizeof request->client_address, "unix");
    if (address == NULL) return;
    if (address->sa_family == AF_INET) {
        memcpy(&request->client, address, sizeof(struct sockaddr_in));
        (void)inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)address)->sin_addr,
                        request->client_address, sizeof request->client_address);
    } else if (address->sa_family == AF_INET6) {
        memcpy(&request->client, address, sizeof(struct sockaddr_in6));
        (void)inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr,
                        request->client_address, sizeof request->client_address);
    }
}

static bool fill(struct exchange *exchange, const char *target)
{
    struct request *request = &exchange->request;
    struct error err = {0};
    const struct uuid id = uuid_random();

    if (!arena_new(EXCHANGE_MEMORY, &request->arena, &err).ok) return false;
    uuid_format(&id, request->id);
    request->blank = &exchange->blank;
    exchange->target_length = strlen(target);
    if (exchange->target_length > exchange->server->limits.path + exchange->server->limits.query) return true;
    exchange->target = arena_copy_text(request->arena, bytes_of_text(target));
    return exchange->target != NULL;
}

void *exchange_begin(void *context, const char *target, struct MHD_Connection *connection)
{
    struct server *server = context;
    struct link *link = link_of(connection);
    struct exchange *exchange = link == NULL ? NULL : memory_zeroed(1, sizeof *exchange);

    if (exchange == NULL) return NULL;
    exchange->server = server;
    exchange->request.gateway = server->gateway;
    exchange->link = link;
    exchange->connection = connection;
    exchange->begun_us = clock_monotonic_us();
    pthread_mutex_init(&exchange->mutex, NULL);
    atomic_fetch_add(&server->exchanges, 1);
    metric_add(&metrics_gateway[METRIC_REQUESTS_NOW], 1);
    link_enter(link, LINK_HEAD);
    if (!fill(exchange, target)) {
        exchange_free(exchange);
        return NULL;
    }
    link->exchange = exchange;
    exchange->number = ++link->requests;
    return exchange;
}

void exchange_suspend(struct exchange *exchange)
{
    atomic_fetch_add(&exchange->server->suspended, 1);
    link_enter(exchange->link, LINK_OURS);
    MHD_suspend_connection(exchange->connection);
}

void exchange_resume(struct exchange *exchange, enum phase phase)
{
    struct server *server = exchange->server;

    exchange->phase = phase;
    link_enter(exchange->link, phase == PHASE_GATHER || phase == PHASE_STREAM ? LINK_BODY : LINK_ANSWER);
    MHD_resume_connection(exchange->connection); /* from here on the event thread may free it */
    atomic_fetch_sub(&server->suspended, 1);
}

static void run_job(struct work_job *job, void *worker_state)
{
    struct exchange *exchange = (struct exchange *)(void *)((char *)job - offsetof(struct exchange, job));
    struct pg *pg = worker_state;
    struct error err = {0};

    if (pg != NULL) pg_notice_loss(pg);
    if (pg != NULL && pg_is_broken(pg) && !pg_reopen(pg, &err).ok) log_error("the database can't be reached", &err);
    exchange->next(exchange, pg);
}

bool exchange_submit(struct exchange *exchange, struct work_pool *pool, void (*next)(struct exchange *, struct pg *))
{
    struct error err = {0};

    exchange->next = next;
    exchange->job.run = run_job;
    exchange->queued_ms = clock_monotonic_ms();
    return work_submit(pool, &exchange->job, &err).ok;
}

/* The one line that the operator reads about a request. Who and what is in the audit log, not here. */
static void log_request(const struct exchange *exchange)
{
    const struct request *request = &exchange->request;
    const int64_t tenths = (clock_monotonic_us() - exchange->begun_us) / 100;
    char status[12], milliseconds[48], in[24], out[24], sequence[24];

    (void)snprintf(status, sizeof status, "%u", exchange->blank.status);
    (void)snprintf(milliseconds, sizeof milliseconds, "%lld.%lld", (long long)tenths / 10, (long long)tenths % 10);
    (void)snprintf(in, sizeof in, "%llu", (unsigned long long)exchange->body_bytes);
    (void)snprintf(out, sizeof out, "%llu", (unsigned long long)exchange->sent_bytes);
    (void)snprintf(sequence, sizeof sequence, "%llu", (unsigned long long)exchange->sequence);
    log_line(LOG_INFO, "request", "request", request->id, "trace", request->trace[0] == '\0' ? NULL : request->trace,
             "method", method_name(request->method), "route", request->route == NULL ? "none" : request->route->name,
             "status", status, "ms", milliseconds, "in", in, "out", out, "event",
             exchange->has_sequence ? sequence : NULL, NULL);
}

void exchange_count_unrecorded(struct exchange *exchange, enum gateway_metric metric)
{
    const struct route *route = exchange->request.route;

    if (exchange->is_refused_by_parser || exchange->is_recorded || (route != NULL && route->record == RECORD_NONE))
        return;
    exchange->is_recorded = true;
    metric_add(&metrics_gateway[metric], 1);
    sequencer_count_refused(exchange->server->gateway->sequencer);
}

static void account(struct exchange *exchange)
{
    const struct route *route = exchange->request.route;
    struct metric *duration = route == NULL ? &metrics_duration[ROUTE_COUNT] : route->duration;

    metric_add(&metrics_gateway[METRIC_REQUESTS_NOW], -1);
    metric_add(&metrics_gateway[METRIC_BYTES_IN], (int64_t)exchange->body_bytes);
    metric_add(&metrics_gateway[METRIC_BYTES_OUT], (int64_t)exchange->sent_bytes);
    if (duration != NULL) metric_observe_us(duration, clock_monotonic_us() - exchange->begun_us);
    exchange_count_unrecorded(exchange, exchange->blank.status != 0 ? METRIC_REFUSED_INPUT : METRIC_REFUSED_GONE);
}

static void leave_quota(struct exchange *exchange)
{
    for (size_t i = 0; i < TICKETS; i++)
        quota_leave(exchange->server->gateway->quota, &exchange->tickets[i]);
}

void exchange_free(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    struct server *server = exchange->server;

    if (request->source != NULL && request->source->close != NULL) request->source->close(request->source->state);
    if ((exchange->has_begun || request->handler_state != NULL) && request->route->handler->release != NULL)
        request->route->handler->release(request);
    if (exchange->blank.status != 0) log_request(exchange);
    account(exchange);
    leave_quota(exchange);
    for (size_t i = 0; i < INTAKE_SLOTS; i++) blocks_give(server->blocks, exchange->intake.slots[i]);
    for (size_t i = 0; i < OUTFLOW_SLOTS; i++) blocks_give(server->blocks, exchange->outflow.slots[i]);
    stream_leave(exchange);
    record_done(&exchange->record);
    permit_free(request->permit);
    decision_free(exchange->decision);
    gather_end(exchange);
    arena_free(request->arena);
    pthread_mutex_destroy(&exchange->mutex);
    free(exchange);
    atomic_fetch_sub(&server->exchanges, 1);
}

/* On a worker: what the handler has to do at the end may block. */
static void free_on_worker(struct exchange *exchange, struct pg *pg)
{
    const struct handler *handler = exchange->request.route->handler;

    if (exchange->has_begun && exchange->was_cut && handler->cut != NULL) handler->cut(&exchange->request, pg);
    if (exchange->request.is_right_lost) exchange_record_lost(exchange);
    exchange_free(exchange);
}

static bool needs_worker(const struct exchange *exchange)
{
    const struct request *request = &exchange->request;

    if (request->is_right_lost) return true;
    if (request->source != NULL && request->source->close != NULL) return true;
    return exchange->has_begun && (request->route->handler->release != NULL || exchange->was_cut);
}

/* Who has the answer may ask again, however long it takes to clear up behind it. */
void exchange_leave(struct exchange *exchange)
{
    if (!exchange->was_cut) stream_leave(exchange);
    if (!exchange->was_cut) leave_quota(exchange);
    const struct gateway *gateway = exchange->server->gateway;
    struct work_pool *pool = exchange->request.source != NULL ? gateway->readers : gateway->movers; /* a disk that hangs takes all senders */

    if (needs_worker(exchange) && exchange_submit(exchange, pool, free_on_worker)) return;
    exchange_free(exchange);
}

void exchange_end(void *server, struct MHD_Connection *connection, void **place,
                  enum MHD_RequestTerminationCode why)
{
    struct exchange *exchange = *place;

    (void)server;
    (void)connection;
    if (exchange == NULL) return;
    *place = NULL;
    exchange->request.is_right_lost = !lease_end(exchange);
    exchange->link->exchange = NULL;
    exchange->is_refused_by_parser =
        why == MHD_REQUEST_TERMINATED_WITH_ERROR && exchange->phase != PHASE_SENT && !exchange->is_given_up;
    exchange->link->has_requested = true;
    exchange->link->must_linger = !exchange->is_body_done && exchange->phase == PHASE_SENT;
    transport_rest(&exchange->link->transport);
    link_enter(exchange->link, LINK_WAITING);

    pthread_mutex_lock(&exchange->mutex);
    exchange->is_gone = true;
    exchange->was_cut = exchange->phase == PHASE_STREAM && !exchange->intake.has_failed;
    const bool is_busy = exchange->is_busy;
    pthread_mutex_unlock(&exchange->mutex);
    if (!is_busy) exchange_leave(exchange); /* else the job that runs sees is_gone and does it */
}

/*
 * Back at the place where the head ended. An answer that goes out here ends the connection, so it waits until the
 * request is over (at once if it has no body), unless the client waits for leave to send, or would send too much.
 */
static enum MHD_Result leave_head(struct exchange *exchange)
{
    const uint64_t most = (uint64_t)exchange->server->gateway->settings->drain_size_max;

    exchange->is_at_head = false;
    if (exchange->phase != PHASE_ANSWER) return MHD_YES;
    const bool may_drain = !exchange->framing.expects_continue && exchange->framing.length <= most;
    if (!may_drain) return send_answer(exchange);
    if (!exchange->is_body_done) link_enter(exchange->link, LINK_BODY);
    return MHD_YES;
}

void exchange_say_later(struct exchange *exchange, unsigned status, const char *why, unsigned wait_s)
{
    struct request *request = &exchange->request;
    const bool is_too_much = status == 429;

    response_error(request, status, is_too_much ? "TOOMANYREQUESTS" : "UNAVAILABLE",
                   is_too_much ? "Too many requests" : "The server is busy", why);
    response_header(request, "Retry-After", "%u", wait_s);
}

void exchange_refuse(struct exchange *exchange, unsigned status, const char *why, unsigned wait_s, enum gateway_metric metric)
{
    exchange_say_later(exchange, status, why, wait_s);
    exchange_count_unrecorded(exchange, metric);
}

static enum MHD_Result refuse_at_head(struct exchange *exchange, unsigned status, const char *why, enum gateway_metric metric)
{
    exchange_refuse(exchange, status, why, 1, metric);
    exchange->phase = PHASE_ANSWER;
    return leave_head(exchange);
}

/* Takes the request in, or makes the answer that says why not. Once it is suspended, a worker may have it. */
static enum MHD_Result admit(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    const struct gateway *gateway = exchange->server->gateway;
    const struct quota_limits limits = {.at_a_time = budget_of_queue(exchange, (unsigned)gateway->settings->requests_per_address)};
    struct error err = {0};

    request->speaks_oci = strncmp(exchange->target, "/v2/", 4) == 0;
    if (!atomic_load(&exchange->server->is_open))
        return refuse_at_head(exchange, 503, "the server starts or ends just now; try again in a second", METRIC_REFUSED_BUSY);
    if (!quota_enter(gateway->quota, "address", request->client_address, &limits, &exchange->tickets[TICKET_ADDRESS], &err).ok)
        return refuse_at_head(exchange, 429, err.message, METRIC_REFUSED_ADDRESS);
    if (work_waiting(gateway->readers) >= (unsigned)gateway->settings->queue_max)
        return refuse_at_head(exchange, 503, "too many requests wait already; try again in a second", METRIC_REFUSED_BUSY);
    exchange->phase = PHASE_WORK;
    exchange_suspend(exchange);
    pipeline_start(exchange);
    return MHD_YES;
}

static enum MHD_Result take_head(struct exchange *exchange, const char *method, const char *version)
{
    struct http_refusal refusal = {0};

    exchange->is_at_head = true;
    take_address(&exchange->request, exchange->connection);
    if (exchange_is_malformed(exchange)) return send_refusal(exchange, &exchange->link->inlet.refusal);
    if (!head_take(exchange, method, version, &refusal)) return send_refusal(exchange, &refusal);
    exchange->is_body_done = !exchange->framing.has_body;
    if (!tls_check_client(exchange->server->tls, exchange->link, exchange->connection)) {
        refusal = (struct http_refusal){.status = 400, .why = "the client's certificate is not valid here"};
        return send_refusal(exchange, &refusal);
    }
    memcpy(exchange->request.client_confirmation, exchange->link->confirmation,
           sizeof exchange->request.client_confirmation);
    return admit(exchange);
}

bool exchange_is_malformed(const struct exchange *exchange)
{
    const struct inlet *inlet = &exchange->link->inlet;

    return inlet->refusal.status != 0 && inlet->requests == exchange->number;
}

bool exchange_sends_too_much(const struct exchange *exchange)
{
    const uint64_t most = (uint64_t)exchange->server->gateway->settings->drain_size_max;
    const uint64_t length = exchange->framing.length; /* 0 of chunks: nobody knows */

    return exchange->drained_bytes > most || (length > exchange->body_bytes && length - exchange->body_bytes > most);
}

/* The answer stands; what is left of the body is read first, because some clients that write look for no answer. */
static enum MHD_Result drain(struct exchange *exchange, size_t *data_size)
{
    if (*data_size == 0) {
        exchange->is_body_done = true;
        return send_answer(exchange);
    }
    exchange->body_bytes += *data_size;
    exchange->drained_bytes += *data_size;
    *data_size = 0;
    if (!exchange_sends_too_much(exchange)) return MHD_YES;
    exchange->is_given_up = true;
    send_at_once(exchange);
    return MHD_NO;
}

/* Bytes that frame the body are wrong; what we have of it is no request. libmicrohttpd was given an end of it (gateway/http/inlet.h). */
static enum MHD_Result drop_gathered(struct exchange *exchange, size_t *data_size)
{
    (void)lease_end(exchange);
    gather_end(exchange);
    exchange_refuse_malformed(exchange);
    exchange->phase = PHASE_ANSWER;
    return drain(exchange, data_size);
}

void exchange_refuse_malformed(struct exchange *exchange)
{
    const struct http_refusal *refusal = &exchange->link->inlet.refusal;

    response_error(&exchange->request, refusal->status, "UNKNOWN", "The request is not well-formed", refusal->why);
}

/* NOLINTNEXTLINE(readability-function-size): the parameters are libmicrohttpd's */
enum MHD_Result exchange_continue(void *server, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data, size_t *data_size,
                                  void **place)
{
    struct exchange *exchange = *place;

    (void)server;
    (void)connection;
    (void)url;
    if (exchange == NULL) return MHD_NO; /* no memory to answer with */
    if (exchange->phase == PHASE_HEAD) return take_head(exchange, method, version);
    if (exchange->phase == PHASE_RECALL && !pipeline_recall(exchange)) return MHD_YES;
    if (exchange->is_at_head) return leave_head(exchange);
    switch (exchange->phase) {
    case PHASE_GATHER:
        return exchange_is_malformed(exchange) ? drop_gathered(exchange, data_size) : gather_take(exchange, data, data_size);
    case PHASE_STREAM: return intake_take(exchange, data, data_size);
    case PHASE_ANSWER: return drain(exchange, data_size);
    case PHASE_HEAD:
    case PHASE_RECALL:
    case PHASE_WORK:
    case PHASE_SENT: break;
    }
    return MHD_NO;
}
