#include "gateway/background/peering.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/sequencer.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gateway/http/callbacks.h"
#include "gateway/http/range.h"
#include "gateway/http/server.h"
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/metrics.h"
#include "gateway/pipeline/serve.h"
#include "policy/decider/decider.h"
#include "registry/copies/copy_lend.h"
#include "registry/metrics.h"

#define RATE_MAX    200 /* requests for copies a second, of each region: each is decided and recorded */
#define SAN_PREFIX  "uri:sijil:region:"
#define HEADERS_MAX 2
#define TEXT_SIZE   256

struct peering {
    struct gateway *gateway;
    struct server *server;
};

/* A request of another gateway. */
struct lending {
    struct http_exchange http;
    struct gateway *gateway;
    struct copy_request request;
    struct copy_lending *lent; /* NULL: it was refused */
    struct quota_ticket ticket;
    uint64_t first; /* the answer begins there */
    struct response response;
    struct response_source source;
    bool is_answered;
    struct field headers[HEADERS_MAX];
    char text[TEXT_SIZE], range[64];
};
_Static_assert(offsetof(struct lending, http) == 0, "gateway/http gives its own part back");

static struct lending *lending_of(struct http_exchange *http)
{
    return (struct lending *)(void *)http; /* its first member */
}

/* ---- Answers ---- */

static void answer(struct lending *lending, unsigned status)
{
    lending->response = (struct response){.status = status, .headers = {0, lending->headers}};
    lending->is_answered = true;
}

static void add_header(struct lending *lending, const char *name, const char *value)
{
    lending->headers[lending->response.headers.count++] = (struct field){name, value};
}

static void refuse(struct lending *lending, unsigned status, const char *rule, const char *why)
{
    metric_add(&registry_metrics_rows[METRIC_LENT_REFUSED], 1);
    (void)snprintf(lending->text, sizeof lending->text, "%s: %s\n", rule, why);
    answer(lending, status);
    lending->response.body = bytes_of_text(lending->text);
    add_header(lending, "Content-Type", "text/plain; charset=utf-8");
}

static struct result read_lent(void *state, uint64_t offset, uint8_t *destination, size_t length, struct error *err)
{
    const struct lending *lending = state;

    return copy_lending_read(lending->lent, lending->first + offset, destination, length, err);
}

static void answer_blob(struct lending *lending)
{
    const uint64_t size = copy_lending_length(lending->lent);
    struct range range = {0};
    const enum range_kind kind = range_read(header_find(&lending->http.headers, "Range"), size, &range);

    if (kind == RANGE_UNSATISFIABLE) {
        refuse(lending, 416, "SYS-RANGE", "the blob has no such bytes");
        return;
    }
    answer(lending, kind == RANGE_PART ? 206 : 200);
    lending->first = kind == RANGE_PART ? range.first : 0;
    lending->source = (struct response_source){
        .state = lending, .read = read_lent, .length = kind == RANGE_PART ? range.last - range.first + 1 : size};
    lending->response.source = &lending->source;
    add_header(lending, "Content-Type", "application/octet-stream");
    if (kind != RANGE_PART) return;
    (void)snprintf(lending->range, sizeof lending->range, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, range.first, range.last,
                   size);
    add_header(lending, "Content-Range", lending->range);
}

/* ---- A request ---- */

static void begin(struct http_exchange *http)
{
    lending_of(http)->gateway = http->context;
}

/* The certificate names the region that asks: one of the lines is "uri:sijil:region:REGION". */
static bool is_peer_of(const struct http_exchange *http, const char *region)
{
    for (const char *line = http_client_names(http); line[0] != '\0'; line += strcspn(line, "\n") + 1) {
        const size_t length = strcspn(line, "\n"), prefix = sizeof SAN_PREFIX - 1;
        if (length == prefix + strlen(region) && strncmp(line, SAN_PREFIX, prefix) == 0 &&
            strncmp(line + prefix, region, strlen(region)) == 0)
            return true;
    }
    return false;
}

/* Before a decision: no other event tells of it. */
static void turn_away(struct lending *lending, unsigned status, const char *rule, const char *why)
{
    sequencer_count_refused(lending->gateway->sequencer);
    refuse(lending, status, rule, why);
}

/* A gateway that asks again and again fills the log with its requests, so each region has a rate. */
static bool is_too_fast(struct lending *lending)
{
    const struct gateway *gateway = lending->gateway;
    const struct quota_limits limits = {.at_a_time = (unsigned)serve_peer_connections(gateway->settings), .rate = RATE_MAX};
    struct error ignored = {0};

    return !quota_enter(gateway->quota, "peer", lending->request.to, &limits, &lending->ticket, &ignored).ok;
}

static bool admit(struct http_exchange *http, bool is_open)
{
    struct lending *lending = lending_of(http);

    if (!is_open) refuse(lending, 503, "SYS-STOPPING", "the gateway starts or stops");
    else if (http->method != METHOD_GET || http->framing.has_body || !copy_request_read(http->request_target, &lending->request))
        turn_away(lending, 400, "SYS-REQUEST", "this is no request for a copy");
    else if (!is_peer_of(http, lending->request.to))
        turn_away(lending, 403, "SYS-NOT-THE-REGION", "the certificate is not of a gateway of the region that gets the copy");
    else if (is_too_fast(lending))
        turn_away(lending, 429, "SYS-TOO-FAST", "too many requests of this region in a second, or at a time");
    return !lending->is_answered;
}

static void fail(struct http_exchange *http, const struct error *err, bool is_told)
{
    const unsigned status = err->kind == ERROR_CORRUPT || err->kind == ERROR_NOT_FOUND ? 422 : 503;

    if (is_told) log_error("nothing was given to the gateway of another region", err);
    refuse(lending_of(http), status, status == 422 ? "SYS-DAMAGED" : "SYS-UNAVAILABLE",
           status == 422 ? "what is stored of the blob does not verify" : "a store, sijil-keyd or the log does not answer");
}

static void work(struct http_exchange *http, void *worker_state)
{
    struct lending *lending = lending_of(http);
    const struct gateway *gateway = lending->gateway;
    const struct copy_lender lender = {gateway->registry, gateway->decider, worker_state};
    struct lend_refusal refusal;
    struct error err = {0};

    if (!copy_lend(&lender, &lending->request, &lending->lent, &refusal, &err).ok) fail(http, &err, true);
    else if (lending->lent == NULL) refuse(lending, refusal.status, refusal.rule, refusal.why);
    else answer_blob(lending);
    http_answer(http);
}

static void start(struct http_exchange *http)
{
    struct lending *lending = lending_of(http);

    if (http_submit(http, lending->gateway->readers, work)) return;
    refuse(lending, 503, "SYS-BUSY", "too many requests wait already");
    http_resume(http, PHASE_ANSWER);
}

static void wake(void *worker_state)
{
    struct pg *pg = worker_state;
    struct error err = {0};

    if (pg == NULL) return; /* of a sender */
    pg_notice_loss(pg);
    if (pg_is_broken(pg) && !pg_reopen(pg, &err).ok) log_error("the database can't be reached", &err);
}

/* ---- What never comes: bodies ---- */

static bool no_fast_path(struct http_exchange *http)
{
    (void)http;
    return false;
}

static bool hold(struct http_exchange *http, int64_t bytes)
{
    (void)http, (void)bytes;
    return true;
}

static void gathered(struct http_exchange *http, struct bytes body)
{
    (void)http, (void)body;
}

static bool no_write(struct http_exchange *http, void *worker_state, struct bytes bytes)
{
    (void)http, (void)worker_state, (void)bytes;
    return false;
}

static void finish(struct http_exchange *http, void *worker_state, bool is_whole)
{
    (void)http, (void)worker_state, (void)is_whole;
}

/* ---- Its answer, and its end ---- */

static const struct response *response_of(const struct http_exchange *http)
{
    const struct lending *lending = (const struct lending *)(const void *)http;

    return lending->is_answered ? &lending->response : NULL;
}

static void refuse_request(struct http_exchange *http, const struct http_refusal *refusal)
{
    struct lending *lending = lending_of(http);

    turn_away(lending, refusal->status, "SYS-REQUEST", refusal->why);
    lending->response.close_connection = true;
}

static void right(const struct http_exchange *http, char rule_out[65])
{
    copy_lending_right(((const struct lending *)(const void *)http)->lent, rule_out);
}

static uint64_t rights(const struct http_exchange *http)
{
    return decider_epoch(((const struct lending *)(const void *)http)->gateway->decider);
}

static void headers(const struct http_exchange *http, http_header_function *add, void *context)
{
    (void)http, (void)add, (void)context;
}

static bool sending(struct http_exchange *http, unsigned status)
{
    (void)status;
    return lending_of(http)->lent != NULL;
}

static void leave(struct http_exchange *http)
{
    (void)http;
}

static bool ends_on_worker(const struct http_exchange *http)
{
    return ((const struct lending *)(const void *)http)->lent != NULL;
}

static void end(struct http_exchange *http, void *worker_state, bool is_on_worker)
{
    struct lending *lending = lending_of(http);

    (void)worker_state;
    if (http->is_right_lost && is_on_worker) copy_lending_lost(lending->lent, http->lease.rule, http->sent_bytes);
    copy_lending_free(GIVE(lending->lent));
    quota_leave(lending->gateway->quota, &lending->ticket);
}

static void refused_by_library(void *context)
{
    const struct gateway *gateway = context;

    metric_add(&metrics_gateway[METRIC_REFUSED_SERVER], 1);
    sequencer_count_refused(gateway->sequencer);
}

static const struct http_callbacks callbacks = {
    .exchange_size = sizeof(struct lending),
    .begin = begin,
    .admit = admit,
    .start = start,
    .fast_path = no_fast_path,
    .hold = hold,
    .gathered = gathered,
    .wake = wake,
    .write = no_write,
    .finish = finish,
    .answer = response_of,
    .refuse_head = refuse_request,
    .refuse_body = refuse_request,
    .fail = fail,
    .right = right,
    .rights = rights,
    .headers = headers,
    .sending = sending,
    .leave = leave,
    .ends_on_worker = ends_on_worker,
    .end = end,
    .refused_by_library = refused_by_library,
};

/* ---- The port ---- */

/* Reads of content, for clients of another gateway, are requests as any other. */
static const struct http_callbacks *choose(const char *target)
{
    return strncmp(target, "/v2/", 4) == 0 ? serve_passed() : NULL;
}

static struct http_options options_of(struct peering *peering)
{
    const struct settings *settings = peering->gateway->settings;
    struct http_options options = serve_options(peering->gateway);

    options.callbacks = &callbacks;
    options.choose = choose;
    options.context = peering->gateway;
    options.listen_address = settings->peer_listen_address;
    options.listen_port = (int)settings->peer_listen_port;
    options.listen_socket = "";
    options.tls = (struct tls_files){.certificate = settings->peer_certificate,
                                     .key = settings->peer_key,
                                     .client_ca = settings->peer_ca,
                                     .demands_client = true};
    options.event_threads = 1;
    options.first_reads_max = 1;
    options.limits = (struct http_limits){
        .headers = (size_t)settings->header_size_max, .path = COPY_REQUEST_SIZE, .query = (size_t)settings->query_size_max};
    options.connections_max = serve_peer_connections(settings);
    options.connections_per_address = options.connections_max;
    options.connections_per_network = 100;
    options.streams_many = options.connections_max;
    options.streams = &peering->gateway->streams;
    options.drain_size_max = settings->drain_size_max;
    return options;
}

struct result peering_start(struct gateway *gateway, struct peering **peering_out, struct error *err)
{
    if (gateway->settings->peer_listen_port == 0) return SUCCESS;
    OWNED(peering) *peering = memory_zeroed(1, sizeof *peering);
    if (peering == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a port");
    peering->gateway = gateway;
    const struct http_options options = options_of(peering);
    TRY(server_start(&options, &peering->server, err));
    log_line(LOG_INFO, "gateways of other regions may fetch copies", "address", gateway->settings->peer_listen_address, NULL);
    *peering_out = GIVE(peering);
    return SUCCESS;
}

struct result peering_reload(struct peering *peering, struct error *err)
{
    return peering == NULL ? SUCCESS : server_reload(peering->server, err);
}

void peering_free(struct peering *peering)
{
    if (peering == NULL) return;
    if (peering->server != NULL) server_stop(peering->server);
    free(peering);
}
