/*
 * Bodies that are gathered in memory: forms, manifests, documents. Manifests and documents together have one limit, whatever their
 * clients announce: memory is taken as bytes come, and counted as it is taken; one principal may have a part of it, and one organisation half. Forms come from
 * strangers: a limit for all of them would be one that strangers can use up, so that nobody gets a token. They are small, and as
 * many as there are connections at most.
 */
#include "crypto/secret.h"
#include "gateway/http/exchange_priv.h"
#include "gateway/http/server_priv.h"

#define PRINCIPALS 8 /* at least as many are needed to use up what all have together */

/* What comes before a decision has a share of its own, so that who may nothing does not keep out who may send. */
enum kind { UNDECIDED, ALLOWED, KINDS };
_Static_assert(KINDS == QUOTA_HELD, "both are counted for each principal");

struct share {
    enum kind kind;
    int64_t of_all, of_organisation, of_one;
};

static struct share share_of(const struct exchange *exchange)
{
    const int64_t all = exchange->server->gateway->settings->gathered_size_max, undecided = all / 4;
    const bool is_allowed = exchange->request.route->body == BODY_ALLOWED;
    struct share share = {.kind = is_allowed ? ALLOWED : UNDECIDED, .of_all = is_allowed ? all - undecided : undecided};
    const int64_t one_body = 1 + (is_allowed ? BODY_ALLOWED_MAX : BODY_UNDECIDED_MAX); /* as large as a buffer gets */

    share.of_one = share.of_all / PRINCIPALS > one_body ? share.of_all / PRINCIPALS : one_body;
    share.of_organisation = share.of_all / 2 > share.of_one ? share.of_all / 2 : share.of_one;
    return share;
}

enum gathered { GATHERED, FAILED, ONE_HAS_TOO_MUCH, ORGANISATION_HAS_TOO_MUCH, ALL_HAVE_TOO_MUCH };

static enum gathered count(struct exchange *exchange, int64_t bytes)
{
    struct server *server = exchange->server;
    const struct share share = share_of(exchange);

    metric_add(&metrics_gateway[METRIC_GATHERED], bytes);
    if (exchange->request.route->body == BODY_FORM) return GATHERED;
    const int64_t all = atomic_fetch_add(&server->gathered_bytes[share.kind], bytes) + bytes;
    struct quota *quota = server->gateway->quota;
    const bool is_one_within = quota_hold(quota, &exchange->tickets[TICKET_PRINCIPAL], share.kind, bytes, share.of_one);
    const bool is_realm_within = quota_hold(quota, &exchange->tickets[TICKET_ORGANISATION], share.kind, bytes, share.of_organisation);
    if (!is_one_within) return ONE_HAS_TOO_MUCH;
    if (!is_realm_within) return ORGANISATION_HAS_TOO_MUCH;
    return all <= share.of_all ? GATHERED : ALL_HAVE_TOO_MUCH;
}

void gather_begin(struct exchange *exchange)
{
    exchange->body = BUFFER(exchange->request.route->body_limit);
    if (exchange->request.route->body != BODY_FORM) lease_begin(exchange); /* forms come before any right */
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

static enum gathered add(struct exchange *exchange, const char *data, size_t size, struct error *err)
{
    const size_t before = exchange->body.capacity;
    const bool added = buffer_add(&exchange->body, data, size, err).ok;
    const int64_t more = (int64_t)(exchange->body.capacity - before);
    const enum gathered counted = more == 0 ? GATHERED : count(exchange, more);

    return added ? counted : FAILED;
}

static void refuse(struct exchange *exchange, enum gathered why, const struct error *err)
{
    static const char one[] = "this client has too many manifests and documents on their way at a time; try again in a second";
    static const char realm[] = "this organisation has too many manifests and documents on their way at a time; try again in a second";
    static const char all[] = "too many manifests and documents are on their way already; try again in a second";

    switch (why) {
    case ONE_HAS_TOO_MUCH: exchange_refuse(exchange, 429, one, 1, METRIC_REFUSED_PRINCIPAL); return;
    case ORGANISATION_HAS_TOO_MUCH: exchange_refuse(exchange, 429, realm, 1, METRIC_REFUSED_ORGANISATION); return;
    case ALL_HAVE_TOO_MUCH: exchange_refuse(exchange, 503, all, 1, METRIC_REFUSED_BUSY); return;
    case FAILED: response_failure(&exchange->request, err); return;
    case GATHERED: return;
    }
}

enum MHD_Result gather_take(struct exchange *exchange, const char *data, size_t *data_size)
{
    struct error err = {0};

    exchange->is_given_up = *data_size == 0 ? !lease_end(exchange) : !lease_move(exchange, *data_size);
    if (exchange->is_given_up) return MHD_NO;
    if (*data_size == 0) {
        exchange->is_body_done = true;
        exchange->request.body = buffer_bytes(&exchange->body);
        exchange->phase = PHASE_WORK;
        exchange_suspend(exchange);
        pipeline_continue(exchange);
        return MHD_YES;
    }
    exchange->body_bytes += *data_size;
    const enum gathered gathered = add(exchange, data, *data_size, &err);
    if (gathered != GATHERED) {
        (void)lease_end(exchange);
        gather_end(exchange); /* at once, so that it stands in nobody's way; the rest is only drained */
        refuse(exchange, gathered, &err);
        exchange->phase = PHASE_ANSWER;
    }
    *data_size = 0;
    return MHD_YES;
}
