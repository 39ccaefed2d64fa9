#include "gateway/pipeline/exchange_priv.h"

#include <string.h>

#include "authz/authenticate.h"

struct event_context exchange_context(const struct exchange *exchange)
{
    const struct request *request = &exchange->request;
    const struct principal *who = exchange->principal.kind == PRINCIPAL_NONE ? exchange->refused : &exchange->principal;
    struct event_context context = {.client_address = request->client_address,
                                    .user_agent = request_header(request, "User-Agent"),
                                    .purpose = request->purpose,
                                    .search = request->search};

    if (who != NULL) {
        context.issuer = who->issuer;
        context.subject = who->subject;
        context.token = who->token[0] == '\0' ? NULL : who->token;
    }
    if (request->authentication != NULL && request->authentication->tried[0] != '\0')
        context.tried = request->authentication->tried;
    if (request->client_confirmation[0] != '\0') context.certificate = request->client_confirmation;
    if (request->rule != NULL && request->rule->claims[0] != '\0') context.claims = request->rule->claims;
    memcpy(context.request_id, request->id, sizeof context.request_id);
    return context;
}

void exchange_count_unrecorded(struct exchange *exchange, enum gateway_metric metric)
{
    const struct route *route = exchange->request.route;

    if (exchange->http.is_refused_by_library || exchange->recorded != RECORDED_NOT ||
        (route != NULL && route->record == RECORD_NONE))
        return;
    exchange->recorded = RECORDED_COUNTED;
    metric_add(&metrics_gateway[metric], 1);
    sequencer_count_refused(exchange->request.gateway->sequencer);
}

/* What a client may do less of. The numbers behind most limits are the operator's, and depend on others. */
static const char *limit_name(enum gateway_metric metric)
{
    static const struct {
        enum gateway_metric metric;
        const char *name;
    } names[] = {{METRIC_REFUSED_SECRET, "wrong-secrets"}, {METRIC_REFUSED_DENIED, "denied-requests"},
                 {METRIC_REFUSED_ADDRESS, "address"},      {METRIC_REFUSED_RIGHTS, "rights"},
                 {METRIC_REFUSED_PROJECT, "project"},      {METRIC_REFUSED_ORGANISATION, "organisation"}};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].metric == metric) return names[i].name;
    return "principal";
}

void exchange_say_later(struct exchange *exchange, unsigned status, const char *why, unsigned wait_s, enum gateway_metric metric)
{
    struct request *request = &exchange->request;
    const bool is_too_much = status == 429, is_used_up = exchange->limit.name != NULL && exchange->limit.left == 0;

    if (is_too_much && !is_used_up) exchange->limit = (struct rate_limit){.name = limit_name(metric), .end_s = wait_s};
    response_error(request, status, is_too_much ? "TOOMANYREQUESTS" : "UNAVAILABLE",
                   is_too_much ? "Too many requests" : "The server is busy", why);
    response_header(request, "Retry-After", "%u", wait_s);
}

void exchange_refuse(struct exchange *exchange, unsigned status, const char *why, unsigned wait_s, enum gateway_metric metric)
{
    exchange_say_later(exchange, status, why, wait_s, metric);
    exchange_count_unrecorded(exchange, metric);
}

void exchange_fail(struct exchange *exchange, const struct error *err)
{
    failure_log(&exchange->request, err);
    response_failure(&exchange->request, err);
}

void exchange_answer(struct exchange *exchange, const struct error *failed)
{
    if (failed != NULL) response_failure(&exchange->request, failed);
    http_answer(&exchange->http);
}

bool exchange_lacks_body(const struct exchange *exchange)
{
    return exchange->request.route->body == BODY_ALLOWED && exchange->http.framing.has_body &&
           exchange->http.body_state != HTTP_BODY_DONE;
}
