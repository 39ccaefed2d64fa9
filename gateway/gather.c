/*
 * Bodies that are gathered in memory: forms, manifests, documents. Manifests and documents together have one limit, whatever their
 * clients announce: memory is taken as bytes come, and counted as it is taken; one principal may have a part of it. Forms come from strangers: a limit for all of them would
 * be one that strangers can use up, so that nobody gets a token. They are small, and as many as there are connections at most.
 */
#include "crypto/secret.h"
#include "gateway/exchange_priv.h"
#include "gateway/server_priv.h"

#define PRINCIPALS 8 /* at least as many are needed to use up what all have together */

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

/* Of all that one principal has gathered at a time. One body is always within it, in a buffer of its largest size. */
static int64_t share_of_one(const struct exchange *exchange)
{
    const int64_t part = share_of(exchange) / PRINCIPALS, body = (int64_t)exchange->request.route->body_limit + 1;

    return part > body ? part : body;
}

enum counted { WITHIN, ONE_HAS_TOO_MUCH, ALL_HAVE_TOO_MUCH };

static enum counted count(struct exchange *exchange, int64_t bytes)
{
    metric_add(&metrics_gateway[METRIC_GATHERED], bytes);
    if (exchange->request.route->body == BODY_FORM) return WITHIN;
    const int64_t all = atomic_fetch_add(count_of(exchange), bytes) + bytes;
    struct quota *quota = exchange->server->gateway->quota;
    if (!quota_hold(quota, &exchange->tickets[TICKET_PRINCIPAL], bytes, share_of_one(exchange))) return ONE_HAS_TOO_MUCH;
    return all <= share_of(exchange) ? WITHIN : ALL_HAVE_TOO_MUCH;
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

/* False: there is an answer that says why not. */
static bool add(struct exchange *exchange, const char *data, size_t size)
{
    static const char one[] = "this client has too many manifests and documents on their way at a time; try again in a second";
    static const char all[] = "too many manifests and documents are on their way already; try again in a second";
    const size_t before = exchange->body.capacity;
    struct error err = {0};

    const bool added = buffer_add(&exchange->body, data, size, &err).ok;
    const enum counted counted = count(exchange, (int64_t)(exchange->body.capacity - before));
    if (!added) response_failure(&exchange->request, &err);
    else if (counted == ONE_HAS_TOO_MUCH) exchange_refuse(exchange, 429, one, 1, METRIC_REFUSED_PRINCIPAL);
    else if (counted == ALL_HAVE_TOO_MUCH) exchange_refuse(exchange, 503, all, 1, METRIC_REFUSED_BUSY);
    return added && counted == WITHIN;
}

enum MHD_Result gather_take(struct exchange *exchange, const char *data, size_t *data_size)
{
    if (*data_size == 0) {
        exchange->is_body_done = true;
        exchange->request.body = buffer_bytes(&exchange->body);
        exchange->phase = PHASE_WORK;
        exchange_suspend(exchange);
        pipeline_continue(exchange);
        return MHD_YES;
    }
    exchange->body_bytes += *data_size;
    if (!add(exchange, data, *data_size)) {
        exchange->phase = PHASE_ANSWER;
        gather_end(exchange); /* the rest is only drained */
    }
    *data_size = 0;
    return MHD_YES;
}
