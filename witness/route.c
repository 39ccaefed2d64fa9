/* What is asked for, and who answers it. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "audit/format/add_checkpoint.h"
#include "base/clock.h"
#include "base/log.h"
#include "crypto/metrics.h"
#include "gateway/http/metrics.h"
#include "gateway/http/path.h"
#include "witness/metrics.h"
#include "witness/serve_priv.h"

#define TEXT_TYPE    "text/plain; charset=utf-8"
#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define METRICS_MAX  ((size_t)256 << 10)
#define NOTE_MAX_OUT (ADD_CHECKPOINT_MAX + 2 * WITNESS_ANSWER_MAX)

/* ---- POST /add-checkpoint ---- */

static void count(const struct witness_answer *answer)
{
    static const struct {
        unsigned status;
        struct metric *metric;
    } rows[] = {
        {200, WITNESS_METRIC(witness_cosigned)},    {400, WITNESS_METRIC(witness_malformed)},
        {403, WITNESS_METRIC(witness_unsigned)},    {404, WITNESS_METRIC(witness_unknown)},
        {409, WITNESS_METRIC(witness_other_size)},  {422, WITNESS_METRIC(witness_unproven)},
        {503, WITNESS_METRIC(witness_unavailable)},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].status == answer->status) metric_add(rows[i].metric, 1);
    if (answer->status == 200) metric_set(WITNESS_METRIC(witness_last), clock_wall_ms() * 1000);
    if (!answer->is_fork) return;
    metric_add(WITNESS_METRIC(witness_forks), 1);
    log_line(LOG_ERROR, "a log has signed two roots of one size: keep the state of this witness, it is evidence", NULL);
}

static void add(struct http_exchange *http, void *worker_state)
{
    struct witness_exchange *exchange = witness_exchange_of(http);
    struct witness_answer answer = {.text = BUFFER(WITNESS_ANSWER_MAX)};
    struct error err = {0};

    (void)worker_state;
    if (witness_add(witness_server_of(exchange)->witness, exchange->body, (uint64_t)(clock_wall_ms() / 1000), &answer, &err).ok) {
        count(&answer);
        witness_respond(exchange, answer.status, answer.content_type, buffer_bytes(&answer.text));
        if (answer.status == 503) witness_header(exchange, "Retry-After", "60");
    } else {
        log_error("a checkpoint could not be judged", &err);
        witness_say(exchange, 503, "this witness has no memory now");
    }
    buffer_done(&answer.text);
    http_answer(http);
}

static void submit(struct witness_exchange *exchange)
{
    if (http_submit(&exchange->http, witness_server_of(exchange)->pool, add)) return;
    witness_say_later(exchange, "too many requests wait already");
    http_answer(&exchange->http);
}

void witness_gathered(struct http_exchange *http, struct bytes body)
{
    struct witness_exchange *exchange = witness_exchange_of(http);

    exchange->body = body;
    submit(exchange);
}

/* True: the body is awaited, or a worker has the request. */
static bool begin_add(struct witness_exchange *exchange)
{
    const struct http_framing *framing = &exchange->http.framing;

    if (!framing->is_chunked && framing->length > ADD_CHECKPOINT_MAX) {
        witness_say(exchange, 413, "the body is too long for a checkpoint with its proof");
        return false;
    }
    if (framing->has_body) http_gather(&exchange->http, ADD_CHECKPOINT_MAX, false);
    else submit(exchange);
    return true;
}

/* ---- what is read ---- */

static bool is_of_this_machine(const struct http_exchange *http)
{
    const struct sockaddr *address = http_client(http);
    const struct sockaddr_in *four = (const void *)address;
    const struct sockaddr_in6 *six = (const void *)address;

    if (address == NULL) return false; /* a proxy on the unix socket, for anybody */
    if (address->sa_family == AF_INET) return (ntohl(four->sin_addr.s_addr) >> 24) == 127;
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

static void take_gauges(struct witness_server *server)
{
    int64_t accepted = 0, broken = 0;
    const size_t all = witness_state_count(server->witness->state);

    for (size_t i = 0; i < all; i++) {
        const struct watched_position position = watched_log_position(witness_state_at(server->witness->state, i));
        accepted += position.is_accepted;
        broken += position.is_broken;
    }
    metric_set(WITNESS_METRIC(witness_logs), accepted);
    metric_set(WITNESS_METRIC(witness_logs_unaccepted), (int64_t)all - accepted);
    metric_set(WITNESS_METRIC(witness_broken), broken);
}

static void answer_metrics(struct witness_exchange *exchange)
{
    static const struct metric_table *const tables[] = {&witness_metrics, &metric_table_http};
    struct buffer OWNED_BUFFER text = BUFFER(METRICS_MAX);
    struct error err = {0};

    if (!is_of_this_machine(&exchange->http)) {
        witness_say(exchange, 404, "there is no such thing");
        return;
    }
    take_gauges(witness_server_of(exchange));
    if (metrics_write(&text, tables, sizeof tables / sizeof tables[0], &err).ok)
        witness_respond(exchange, 200, METRICS_TYPE, buffer_bytes(&text));
    else witness_say(exchange, 503, "this witness has no memory now");
}

static void answer_checkpoint(struct witness_exchange *exchange, const char *hex)
{
    struct watched_log *log = witness_state_find_hex(witness_server_of(exchange)->witness->state, hex);
    struct buffer OWNED_BUFFER note = BUFFER(NOTE_MAX_OUT);
    struct error err = {0};

    if (log != NULL && !watched_log_note(log, &note, &err).ok) witness_say(exchange, 503, "this witness has no memory now");
    else if (note.length == 0) witness_say(exchange, 404, "this witness has cosigned no checkpoint of such a log");
    else witness_respond(exchange, 200, TEXT_TYPE, buffer_bytes(&note));
}

/* ---- routes ---- */

static bool is_read(const struct http_exchange *http)
{
    return http->method == METHOD_GET || http->method == METHOD_HEAD;
}

static void refuse_method(struct witness_exchange *exchange, const char *allowed)
{
    witness_say(exchange, 405, "the path has other methods");
    witness_header(exchange, "Allow", allowed);
}

/* True: the answer is made later. */
static bool dispatch(struct witness_exchange *exchange, const struct path *path)
{
    const struct http_exchange *http = &exchange->http;
    const char *first = path->count > 0 ? path->segments[0] : "", *second = path->count > 1 ? path->segments[1] : "";

    if (path->count == 1 && strcmp(first, "add-checkpoint") == 0) {
        if (http->method == METHOD_POST) return begin_add(exchange);
        refuse_method(exchange, "POST");
    } else if (path->count == 2 && strcmp(second, "checkpoint") == 0) {
        if (is_read(http)) answer_checkpoint(exchange, first);
        else refuse_method(exchange, "GET, HEAD");
    } else if (path->count == 1 && strcmp(first, "metrics") == 0 && is_read(http)) {
        answer_metrics(exchange);
    } else if (path->count == 1 && strcmp(first, "healthz") == 0 && is_read(http)) {
        witness_respond(exchange, 200, TEXT_TYPE, bytes_of_text("ok\n"));
    } else {
        witness_say(exchange, 404, "there is no such thing");
    }
    return false;
}

static bool take_path(struct witness_exchange *exchange, bool *is_later_out)
{
    const struct http_exchange *http = &exchange->http;
    const struct bytes target = {(const uint8_t *)http->request_target, http->request_target_length};
    struct path *path = arena_take(http->arena, sizeof *path);
    struct bytes plain = {0}, query = {0};
    struct error err = {0};

    if (path == NULL || !request_target_split(target, &plain, &query) || !path_split(plain, http->arena, path, &err).ok)
        return false;
    *is_later_out = dispatch(exchange, path);
    return true;
}

void witness_route(struct http_exchange *http)
{
    struct witness_exchange *exchange = witness_exchange_of(http);
    bool is_later = false;

    if (!take_path(exchange, &is_later)) witness_say(exchange, 400, "the path is not well-formed");
    if (!is_later) http_answer(http);
}
