/*
 * Bodies that stream in: the handler begins, writes each piece, and finishes. All such bodies share one limit. Each target organisation,
 * and each principal, may use a share of it. The share belongs to the organisation of the target, because only clients that may push there
 * can use it up, and because subjects of one issuer may push into many organisations. The last quarter is for organisations and principals
 * with few bodies (base/share.h), so that large shares never fill the limit.
 */
#include <stdio.h>

#include "authz/role.h"
#include "base/share.h"
#include "gateway/pipeline/exchange_priv.h"

static int64_t lower(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

/* False: the share is used up, and `*refusal` says so. */
static bool enter(struct exchange *exchange, unsigned ticket, const char *kind, const char *key, int64_t most,
                  struct stream_refusal *refusal)
{
    char realm[UUID_TEXT_SIZE];
    const struct quota_limits limits = {.at_a_time = (unsigned)most, .realm = realm};
    struct error err = {0};

    uuid_format(&exchange->request.pairs[0].resource.organisation, realm);
    if (quota_enter(exchange->request.gateway->quota, kind, key, &limits, &exchange->shares.tickets[ticket], &err).ok)
        return true;
    (void)snprintf(refusal->why, sizeof refusal->why,
                   "%lld bodies are coming in %s already, and more of its bodies don't fit now", (long long)most,
                   ticket == TICKET_STREAM_ORGANISATION ? "for this organisation" : "from this client");
    return false;
}

static bool enter_shares(struct exchange *exchange, int now, struct stream_refusal *refusal)
{
    const struct settings *settings = exchange->request.gateway->settings;
    const int64_t most = share_limit(settings->streams_max, now, SHARE_LITTLE(settings->streams_max));
    char organisation[UUID_TEXT_SIZE], principal[PRINCIPAL_KEY_SIZE];

    uuid_format(&exchange->request.pairs[0].resource.organisation, organisation);
    principal_key(exchange->request.principal, principal);
    refusal->status = 429;
    refusal->metric = METRIC_REFUSED_ORGANISATION;
    if (!enter(exchange, TICKET_STREAM_ORGANISATION, "bodies into an organisation", organisation,
               lower(most, settings->streams_per_organisation), refusal))
        return false;
    refusal->metric = METRIC_REFUSED_PRINCIPAL;
    return enter(exchange, TICKET_STREAM_PRINCIPAL, "bodies of a principal", principal,
                 lower(settings->streams_max, settings->streams_per_principal), refusal);
}

bool stream_enter(struct exchange *exchange, struct stream_refusal *refusal_out)
{
    const int64_t most = exchange->request.gateway->settings->streams_max;

    if (exchange->shares.is_stream) return true; /* it was decided again */
    const int now = atomic_fetch_add(&exchange->request.gateway->streams, 1);
    exchange->shares.is_stream = true;
    metric_add(&metrics_gateway[METRIC_STREAMS_NOW], 1);
    if (now < most && enter_shares(exchange, now, refusal_out)) return true;
    stream_leave(exchange); /* now, because the client may take long to read its answer */
    if (now < most) return false;
    *refusal_out = (struct stream_refusal){.status = 503, .metric = METRIC_REFUSED_BUSY};
    (void)snprintf(refusal_out->why, sizeof refusal_out->why,
                   "%lld bodies are coming in already, which is all that fit; try again in a second", (long long)most);
    return false;
}

void stream_leave(struct exchange *exchange)
{
    if (!exchange->shares.is_stream) return;
    exchange->shares.is_stream = false;
    quota_leave(exchange->request.gateway->quota, &exchange->shares.tickets[TICKET_STREAM_ORGANISATION]);
    quota_leave(exchange->request.gateway->quota, &exchange->shares.tickets[TICKET_STREAM_PRINCIPAL]);
    atomic_fetch_sub(&exchange->request.gateway->streams, 1);
    metric_add(&metrics_gateway[METRIC_STREAMS_NOW], -1);
}

/* ---- The handler of one ---- */

/* Records its result, and the answer goes out. */
static void finish(struct exchange *exchange, struct pg *pg)
{
    struct error err = {0};

    outcome_conclude(exchange, handler_of(&exchange->request)->finish(&exchange->request, pg, &err), &err);
    exchange_answer(exchange, NULL);
}

bool stream_begin(struct exchange *exchange, struct pg *pg)
{
    struct request *request = &exchange->request;
    struct error err = {0};

    const struct result result = handler_of(request)->begin(request, pg, &err);
    if (!result.ok || request->response != NULL) {
        outcome_conclude(exchange, result, &err);
        return false;
    }
    if (!outcome_ensure(exchange, &err).ok) {
        outcome_answer(exchange, &err);
        return false;
    }
    if (request->is_passed_on) exchange->http.receivers = passings_threads(request->gateway->passings);
    if (exchange->http.framing.has_body) http_stream(&exchange->http);
    else finish(exchange, pg);
    return true;
}

bool stream_write(struct http_exchange *http, void *worker_state, struct bytes bytes)
{
    struct exchange *exchange = exchange_of(http);
    struct request *request = &exchange->request;
    struct error err = {0};

    const bool ok = handler_of(request)->write(request, worker_state, bytes, &err).ok;
    if (!ok) exchange_fail(exchange, &err);
    return ok && request->response == NULL;
}

void stream_finish(struct http_exchange *http, void *worker_state, bool is_whole)
{
    static const struct error no_memory = {ERROR_NO_MEMORY, "no memory for a body"};
    struct exchange *exchange = exchange_of(http);

    if (is_whole) {
        finish(exchange, worker_state);
        return;
    }
    outcome_conclude(exchange, (struct result){.ok = exchange->request.response != NULL}, &no_memory);
    exchange_answer(exchange, NULL);
}
