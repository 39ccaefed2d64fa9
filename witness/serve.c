/* The callbacks of gateway/http, and the start and the end of the server. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gateway/http/server.h"
#include "witness/serve_priv.h"

#define TEXT_TYPE    "text/plain; charset=utf-8"
#define THREADS      4   /* each may wait for the disk */
#define QUEUE_MAX    256 /* requests that wait for them */
#define GATHERED_MAX ((int64_t)16 << 20)
#define CONNECTIONS  1000
#define PER_ADDRESS  64
#define PER_NETWORK  50 /* percent */

void witness_header(struct witness_exchange *exchange, const char *name, const char *value)
{
    struct fields *headers = &exchange->space.headers;

    assert(headers->count < WITNESS_HEADERS_MAX);
    exchange->headers[headers->count++] = (struct field){name, value};
}

void witness_respond(struct witness_exchange *exchange, unsigned status, const char *type, struct bytes text)
{
    struct response *answer = &exchange->space;
    char *copy = exchange->http.arena == NULL ? NULL : arena_copy_text(exchange->http.arena, text);

    *answer = (struct response){.status = status, .headers = {.list = exchange->headers}};
    if (copy == NULL) answer->is_broken = true;
    else answer->body = (struct bytes){(const uint8_t *)copy, text.length};
    witness_header(exchange, "Content-Type", type);
    exchange->answer = answer;
}

void witness_say(struct witness_exchange *exchange, unsigned status, const char *why)
{
    const char *line = exchange->http.arena == NULL ? NULL : arena_format(exchange->http.arena, "%s\n", why);

    witness_respond(exchange, status, TEXT_TYPE, bytes_of_text(line == NULL ? "\n" : line));
}

void witness_say_later(struct witness_exchange *exchange, const char *why)
{
    witness_say(exchange, 503, why);
    witness_header(exchange, "Retry-After", "1");
}

/* ---- callbacks ---- */

static void begin(struct http_exchange *http)
{
    (void)http;
}

static bool admit(struct http_exchange *http, bool is_open)
{
    struct witness_exchange *exchange = witness_exchange_of(http);

    if (is_open) return true;
    witness_say_later(exchange, "this witness is starting or stopping");
    return false;
}

static bool hold(struct http_exchange *http, int64_t bytes)
{
    struct witness_exchange *exchange = witness_exchange_of(http);
    const int64_t now = atomic_fetch_add(&witness_server_of(exchange)->gathered, bytes) + bytes;

    if (bytes < 0 || now <= GATHERED_MAX) return true;
    witness_say_later(exchange, "too many requests are on their way already");
    return false;
}

static void wake(void *worker_state)
{
    (void)worker_state;
}

/* No body is streamed, and no answer is made on the fast path. */
static bool never_fast(struct http_exchange *http)
{
    (void)http;
    abort();
}

static bool never_written(struct http_exchange *http, void *worker_state, struct bytes bytes)
{
    (void)http, (void)worker_state, (void)bytes;
    abort();
}

static void never_finished(struct http_exchange *http, void *worker_state, bool is_whole)
{
    (void)http, (void)worker_state, (void)is_whole;
    abort();
}

static const struct response *answer(const struct http_exchange *http)
{
    return ((const struct witness_exchange *)(const void *)http)->answer;
}

static void refuse_head(struct http_exchange *http, const struct http_refusal *refusal)
{
    struct witness_exchange *exchange = witness_exchange_of(http);

    witness_say(exchange, refusal->status, refusal->why);
    exchange->space.close_connection = true;
}

static void refuse_body(struct http_exchange *http, const struct http_refusal *refusal)
{
    witness_say(witness_exchange_of(http), refusal->status, refusal->why);
}

static void fail(struct http_exchange *http, const struct error *err, bool is_told)
{
    if (is_told) log_error("a request could not be answered", err);
    witness_say(witness_exchange_of(http), err->kind == ERROR_LIMIT ? 413 : 503,
                err->kind == ERROR_LIMIT ? "the body is too long" : "not now");
}

static void right(const struct http_exchange *http, char rule_out[65])
{
    (void)http;
    rule_out[0] = '\0';
}

static void headers(const struct http_exchange *http, http_header_function *add, void *context)
{
    (void)http, (void)add, (void)context;
}

static bool sending(struct http_exchange *http, unsigned status)
{
    witness_exchange_of(http)->sent_status = status;
    return false;
}

static void leave(struct http_exchange *http)
{
    (void)http;
}

static bool ends_on_worker(const struct http_exchange *http)
{
    (void)http;
    return false;
}

static void end(struct http_exchange *http, void *worker_state, bool is_on_worker)
{
    const struct witness_exchange *exchange = witness_exchange_of(http);
    char status[12]; /* an unsigned number */

    (void)worker_state, (void)is_on_worker;
    if (exchange->sent_status == 0 || http->method != METHOD_POST) return;
    (void)snprintf(status, sizeof status, "%u", exchange->sent_status);
    log_line(LOG_INFO, "add-checkpoint", "status", status, NULL);
}

static void refused_by_library(void *context)
{
    (void)context;
}

const struct http_callbacks witness_callbacks = {
    .exchange_size = sizeof(struct witness_exchange),
    .begin = begin,
    .admit = admit,
    .start = witness_route,
    .fast_path = never_fast,
    .hold = hold,
    .gathered = witness_gathered,
    .wake = wake,
    .write = never_written,
    .finish = never_finished,
    .answer = answer,
    .refuse_head = refuse_head,
    .refuse_body = refuse_body,
    .fail = fail,
    .right = right,
    .headers = headers,
    .sending = sending,
    .leave = leave,
    .ends_on_worker = ends_on_worker,
    .end = end,
    .refused_by_library = refused_by_library,
};

/* ---- start and end ---- */

static struct http_options http_of(struct witness_server *server, const struct witness_options *options)
{
    return (struct http_options){
        .callbacks = &witness_callbacks,
        .context = server,
        .listen_address = options->address,
        .listen_port = options->port,
        .listen_socket = options->socket,
        .tls = {.certificate = options->certificate, .key = options->key, .client_ca = ""},
        .event_threads = 1,
        .readers = server->pool,
        .receivers = server->pool,
        .senders = server->pool,
        .queue_max = QUEUE_MAX,
        .queue_timeout_ms = 10000,
        .first_reads_max = THREADS / 2,
        .limits = {.headers = 16384, .path = 1024, .query = 1024},
        .leases = {.time_ms = 60000, .size = 1 << 20},
        .connections_max = CONNECTIONS,
        .connections_per_address = PER_ADDRESS,
        .connections_per_network = PER_NETWORK,
        .drain_size_max = 1 << 20,
        .idle_s = 30,
        .handshake_s = 5,
        .head_s = 10,
        .shutdown_s = 10,
        .rate_window_s = 10,
        .rate_minimum = 1024,
        .rate_minimum_busy = 1024,
        .streams_many = 1,
        .streams = &server->streams,
    };
}

struct result witness_serve(const struct witness *witness, const struct witness_options *options,
                            struct witness_server **server_out, struct error *err)
{
    const struct work_options workers = {.name = "witness", .threads = THREADS, .queue_max = QUEUE_MAX};
    struct witness_server *server = memory_zeroed(1, sizeof *server);

    if (server == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a server");
    server->witness = witness;
    struct result started = work_pool_new(&workers, &server->pool, err);
    if (started.ok) {
        const struct http_options http = http_of(server, options);
        started = server_start(&http, &server->server, err);
    }
    if (started.ok) {
        *server_out = server;
        return SUCCESS;
    }
    work_pool_free(server->pool);
    free(server);
    return started;
}

int witness_server_port(const struct witness_server *server)
{
    return server_port(server->server);
}

struct result witness_server_reload(struct witness_server *server, struct error *err)
{
    return server_reload(server->server, err);
}

void witness_server_stop(struct witness_server *server)
{
    server_stop(server->server);
    work_pool_free(server->pool);
    free(server);
}
