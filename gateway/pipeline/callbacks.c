/* The pipeline's callbacks (gateway/http/callbacks.h): for the beginning of a request, the pieces of its body, and its end. */
#include "gateway/http/callbacks.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "authz/act.h"
#include "authz/dpop_nonces.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "gateway/pipeline/callbacks_priv.h"
#include "gateway/pipeline/document.h"
#include "gateway/pipeline/exchange_priv.h"
#include "gateway/pipeline/passing.h"
#include "gateway/pipeline/signed_body.h"
#include "policy/decider/decider.h"

_Static_assert(offsetof(struct exchange, http) == 0, "gateway/http gives its own part back");

/* ---- A request begins ---- */

static void begin(struct http_exchange *http)
{
    struct exchange *exchange = exchange_of(http);
    struct request *request = &exchange->request;
    const struct uuid id = uuid_random();

    request->gateway = http->context;
    request->principal = &exchange->principal;
    request->arena = http->arena;
    request->response_space = &exchange->response_space;
    uuid_format(&id, request->id);
}

static void refuse_head(struct http_exchange *http, const struct http_refusal *refusal)
{
    struct exchange *exchange = exchange_of(http);
    struct request *request = &exchange->request;

    request_take_head(request, http);
    response_error(request, refusal->status, refusal->is_of_path ? "NAME_INVALID" : "UNKNOWN", "The request is not well-formed",
                   refusal->why);
    request->response->close_connection = true;
    exchange_count_unrecorded(exchange, METRIC_REFUSED_HEAD);
}

static bool refuse_now(struct exchange *exchange, unsigned status, const char *why, enum gateway_metric metric)
{
    exchange_refuse(exchange, status, why, 1, metric);
    return false;
}

static bool admit(struct http_exchange *http, bool is_open)
{
    struct exchange *exchange = exchange_of(http);
    struct request *request = &exchange->request;
    const struct gateway *gateway = request->gateway;
    const struct quota_limits limits = {.at_a_time =
                                            budget_of_queue(exchange, (unsigned)gateway->settings->requests_per_address)};
    struct quota_ticket *ticket = &exchange->shares.tickets[TICKET_ADDRESS];
    struct error err = {0};

    request_take_head(request, http);
    if (!is_open)
        return refuse_now(exchange, 503, "the server is starting or stopping; try again in a second", METRIC_REFUSED_BUSY);
    if (!quota_enter(gateway->quota, "address", request->client_address, &limits, ticket, &err).ok)
        return refuse_now(exchange, 429, err.message, METRIC_REFUSED_ADDRESS);
    if (work_waiting(gateway->readers) >= (unsigned)gateway->settings->queue_max)
        return refuse_now(exchange, 503, "too many requests wait already; try again in a second", METRIC_REFUSED_BUSY);
    return true;
}

/* ---- The same, from the gateway of another region (gateway/pipeline/passing.h) ---- */

static void begin_passed(struct http_exchange *http)
{
    begin(http);
    exchange_of(http)->request.is_passed = true;
}

static bool admit_passed(struct http_exchange *http, bool is_open)
{
    struct exchange *exchange = exchange_of(http);
    struct request *request = &exchange->request;

    if (!admit(http, is_open)) return false;
    if (passing_is_of_gateway(request)) {
        metric_add(&metrics_gateway[METRIC_PASSED_HERE], 1);
        return true;
    }
    response_error(request, 403, "DENIED", "Not allowed", "the certificate is not of a gateway of a region");
    exchange_count_unrecorded(exchange, METRIC_REFUSED_ROUTE);
    return false;
}

/* ---- Its body ---- */

static bool hold(struct http_exchange *http, int64_t bytes)
{
    return body_memory_hold(exchange_of(http), bytes);
}

static void gathered(struct http_exchange *http, struct bytes body)
{
    struct exchange *exchange = exchange_of(http);

    exchange->request.body = body;
    pipeline_continue(exchange);
}

static void wake(void *worker_state)
{
    struct pg *pg = worker_state;
    struct error err = {0};

    if (pg != NULL) pg_notice_loss(pg);
    if (pg != NULL && pg_is_broken(pg) && !pg_reopen(pg, &err).ok) log_error("the database can't be reached", &err);
}

static void refuse_body(struct http_exchange *http, const struct http_refusal *refusal)
{
    response_error(&exchange_of(http)->request, refusal->status, "UNKNOWN", "The request is not well-formed", refusal->why);
}

static void right(const struct http_exchange *http, char rule_out[65])
{
    exchange_right((const struct exchange *)(const void *)http, rule_out);
}

static uint64_t rights(const struct http_exchange *http)
{
    return decider_epoch(((const struct exchange *)(const void *)http)->request.gateway->decider);
}

/* ---- Its answer ---- */

static const struct response *answer(const struct http_exchange *http)
{
    return ((const struct exchange *)(const void *)http)->request.response;
}

static void fail(struct http_exchange *http, const struct error *err, bool is_told)
{
    struct request *request = &exchange_of(http)->request;

    if (is_told) failure_log(request, err);
    response_failure(request, err);
}

/* Fields are lists of RFC 9651 with one member each. */
static void add_limit(const struct rate_limit *limit, http_header_function *add, void *context)
{
    char text[96];

    if (limit->name == NULL) return;
    if (limit->quota > 0) {
        (void)snprintf(text, sizeof text, "\"%s\";q=%lld;w=%u", limit->name, (long long)limit->quota, limit->window_s);
        add(context, "RateLimit-Policy", text);
    }
    (void)snprintf(text, sizeof text, "\"%s\";r=%lld;t=%u", limit->name, (long long)limit->left, limit->end_s);
    add(context, "RateLimit", text);
}

/* Clients learn the nonce from an answer: those whose proofs or signatures repeat it, and those that must sign. */
static bool needs_nonce(const struct exchange *exchange)
{
    return request_speaks_dpop(&exchange->request) || request_header(&exchange->request, ACT_HEADER) != NULL ||
           (exchange->found != NULL && exchange->found->error == OAUTH_ACT);
}

static void headers(const struct http_exchange *http, http_header_function *add, void *context)
{
    const struct exchange *exchange = (const struct exchange *)(const void *)http;
    const struct gateway *gateway = exchange->request.gateway;
    char audit[sizeof gateway->log_name + 24], nonce[DPOP_NONCE_SIZE];

    add(context, "X-Request-Id", exchange->request.id);
    if (exchange->recorded == RECORDED_EVENT) {
        (void)snprintf(audit, sizeof audit, "%s/%llu", gateway->log_name, (unsigned long long)exchange->sequence);
        add(context, "Sijil-Audit", audit);
    }
    if (needs_nonce(exchange) && dpop_nonces_newest(gateway->nonces, clock_wall_ms(), nonce))
        add(context, "DPoP-Nonce", nonce); /* RFC 9449, 8.2: with each answer, so that a client is never late */
    add_limit(&exchange->limit, add, context);
    if (exchange->request.speaks_oci) add(context, "Docker-Distribution-Api-Version", "registry/2.0");
}

static bool sending(struct http_exchange *http, unsigned status)
{
    struct exchange *exchange = exchange_of(http);
    struct request *request = &exchange->request;

    if (request->response == NULL) request->response = request->response_space;
    exchange->response_space.status = status;
    exchange_count_unrecorded(exchange, METRIC_REFUSED_INPUT);
    return request->permit != NULL;
}

/* ---- Its end ---- */

static void leave_quota(struct exchange *exchange)
{
    for (size_t i = 0; i < TICKETS; i++) quota_leave(exchange->request.gateway->quota, &exchange->shares.tickets[i]);
}

static void leave(struct http_exchange *http)
{
    stream_leave(exchange_of(http));
    leave_quota(exchange_of(http));
}

static bool ends_on_worker(const struct http_exchange *http)
{
    const struct exchange *exchange = (const struct exchange *)(const void *)http;
    const struct request *request = &exchange->request;

    if (http->is_right_lost) return true;
    if (request->source != NULL && request->source->close != NULL) return true;
    return exchange->has_begun && (handler_of(request)->release != NULL || http->end == HTTP_CUT);
}

/* Writes the operator's log line of a request. Principal and resource are in the audit log, not here. */
static void log_request(const struct exchange *exchange)
{
    const struct request *request = &exchange->request;
    const struct http_exchange *http = &exchange->http;
    const int64_t tenths = (clock_monotonic_us() - http->begun_us) / 100;
    char status[12], milliseconds[48], in[24], out[24], sequence[24];

    (void)snprintf(status, sizeof status, "%u", exchange->response_space.status);
    (void)snprintf(milliseconds, sizeof milliseconds, "%lld.%lld", (long long)tenths / 10, (long long)tenths % 10);
    (void)snprintf(in, sizeof in, "%llu", (unsigned long long)http->body_bytes);
    (void)snprintf(out, sizeof out, "%llu", (unsigned long long)http->sent_bytes);
    (void)snprintf(sequence, sizeof sequence, "%llu", (unsigned long long)exchange->sequence);
    log_line(LOG_INFO, "request", "request", request->id, "trace", request->trace[0] == '\0' ? NULL : request->trace, "method",
             method_name(request->method), "route", request->route == NULL ? "none" : request->route->name, "status", status,
             "ms", milliseconds, "in", in, "out", out, "event", exchange->recorded == RECORDED_EVENT ? sequence : NULL, NULL);
}

static void account(struct exchange *exchange)
{
    const struct route *route = exchange->request.route;
    struct metric *duration = route == NULL ? exchange->request.gateway->routes->unrouted : route->duration;

    if (duration != NULL) metric_observe_us(duration, clock_monotonic_us() - exchange->http.begun_us);
    exchange_count_unrecorded(exchange, exchange->response_space.status != 0 ? METRIC_REFUSED_INPUT : METRIC_REFUSED_GONE);
}

static void end_handler(struct exchange *exchange)
{
    struct request *request = &exchange->request;

    if (request->source != NULL && request->source->close != NULL) request->source->close(request->source->state);
    if ((exchange->has_begun || request->handler_state != NULL) && handler_of(request)->release != NULL)
        handler_of(request)->release(request);
    request_document_free(request);
    request_signed_free(request);
}

static void cut(struct exchange *exchange, struct pg *pg)
{
    struct request *request = &exchange->request;
    const struct handler *handler = handler_of(request);

    request->is_right_lost = exchange->http.is_right_lost;
    if (exchange->has_begun && exchange->http.end == HTTP_CUT && handler->cut != NULL) handler->cut(request, pg);
    if (request->is_right_lost) exchange_record_lost(exchange);
}

/* The handler's release may block, so it is left out if no worker is free. */
static void end(struct http_exchange *http, void *worker_state, bool is_on_worker)
{
    struct exchange *exchange = exchange_of(http);

    if (is_on_worker) cut(exchange, worker_state);
    end_handler(exchange);
    if (exchange->response_space.status != 0) log_request(exchange);
    account(exchange);
    leave(http);
    record_done(&exchange->record);
    permit_free(exchange->request.permit);
    decision_free(exchange->decision);
}

static void refused_by_library(void *context)
{
    const struct gateway *gateway = context;

    metric_add(&metrics_gateway[METRIC_REFUSED_SERVER], 1);
    sequencer_count_refused(gateway->sequencer);
}

#define CALLBACKS(on_begin, on_admit)                                                                                    \
    {                                                                                                                    \
        .exchange_size = sizeof(struct exchange), .begin = (on_begin), .admit = (on_admit), .start = pipeline_start,     \
        .fast_path = pipeline_fast_path, .hold = hold, .gathered = gathered, .wake = wake, .write = stream_write,        \
        .finish = stream_finish, .answer = answer, .refuse_head = refuse_head, .refuse_body = refuse_body, .fail = fail, \
        .right = right, .rights = rights, .headers = headers, .sending = sending, .leave = leave,                        \
        .ends_on_worker = ends_on_worker, .end = end, .refused_by_library = refused_by_library,                          \
    }

const struct http_callbacks pipeline_callbacks = CALLBACKS(begin, admit);
const struct http_callbacks pipeline_callbacks_passed = CALLBACKS(begin_passed, admit_passed);
