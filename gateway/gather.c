/*
 * Bodies that are gathered in memory: forms, manifests, documents. Manifests and documents together have one limit, whatever their
 * clients announce: memory is taken as bytes come, and counted as it is taken. Forms come from strangers: a limit for all of them would
 * be one that strangers can use up, so that nobody gets a token. They are small, and as many as there are connections at most.
 */
#include "crypto/secret.h"
#include "gateway/exchange_priv.h"
#include "gateway/server_priv.h"

/* What comes before a decision has a share of its own, so that who may nothing does not keep out who may send. */
static _Atomic int64_t *count_of(struct exchange *exchange)
{
    struct server *server = exchange->server;

    return exchange->request.route->body == BODY_ALLOWED ? &server->allowed_bytes : &server->undecided_bytes;
}

static int64_t share_of(const struct exchange *exchange)
{
    const int64_t all = exchange->server->gateway->settings->gathered_size_max, undecided = all / 4;

    return exchange->request.route->body == BODY_ALLOWED ? all - undecided : undecided;
}

/* Whether all that is gathered with this is still within its share. */
static bool count(struct exchange *exchange, int64_t bytes)
{
    metric_add(&metrics_gateway[METRIC_GATHERED], bytes);
    if (exchange->request.route->body == BODY_FORM) return true;
    return atomic_fetch_add(count_of(exchange), bytes) + bytes <= share_of(exchange);
}

void gather_begin(struct exchange *exchange)
{
    exchange->body = BUFFER(exchange->request.route->body_limit);
    exchange_resume(exchange, PHASE_GATHER);
}

void gather_end(struct exchange *exchange)
{
    struct buffer *body = &exchange->body;

    if (body->data == NULL) return;
    (void)count(exchange, -(int64_t)body->capacity);
    secret_wipe(body->data, body->capacity); /* a form may have a password */
    buffer_done(body);
}

static struct result add(struct exchange *exchange, const char *data, size_t size, struct error *err)
{
    const size_t before = exchange->body.capacity;

    const struct result added = buffer_add(&exchange->body, data, size, err);
    const bool is_within = count(exchange, (int64_t)(exchange->body.capacity - before));
    if (!added.ok || is_within) return added;
    exchange_count_unrecorded(exchange, METRIC_REFUSED_BUSY);
    return failure(err, ERROR_UNAVAILABLE, "too many bodies are being gathered already; try again in a second");
}

enum MHD_Result gather_take(struct exchange *exchange, const char *data, size_t *data_size)
{
    struct error err = {0};

    if (*data_size == 0) {
        exchange->is_body_done = true;
        exchange->request.body = buffer_bytes(&exchange->body);
        exchange->phase = PHASE_WORK;
        exchange_suspend(exchange);
        pipeline_continue(exchange);
        return MHD_YES;
    }
    exchange->body_bytes += *data_size;
    if (!add(exchange, data, *data_size, &err).ok) {
        response_failure(&exchange->request, &err);
        exchange->phase = PHASE_ANSWER;
        gather_end(exchange); /* the rest is only drained */
    }
    *data_size = 0;
    return MHD_YES;
}
