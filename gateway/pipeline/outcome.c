/* Records the result of a handler, and makes the answer. */
#include <stdio.h>

#include "gateway/pipeline/exchange_priv.h"

struct result outcome_ensure(struct exchange *exchange, struct error *err)
{
    struct request *request = &exchange->request;

    if (exchange->recorded != RECORDED_NOT || request->route->record < RECORD_WITH_CHANGE) return SUCCESS;
    if (request->route->record == RECORD_OF_CHANGES) {
        exchange->recorded = RECORDED_NOTHING;
        return SUCCESS;
    }
    return request_record(request, NULL, err);
}

/*
 * An allowed request that fails is recorded too. A handler that fails before its change gets two events, for the permission and for the
 * failure: a change that fails would make its whole group wait.
 */
static struct result record_failure(struct exchange *exchange, const struct error *handler_failure, struct error *err)
{
    struct request *request = &exchange->request;
    const bool changes = request->route->record >= RECORD_WITH_CHANGE || request->route->body == BODY_STREAMED;
    const bool failed = handler_failure != NULL || (request->response != NULL && request->response->status >= 400);
    char note[32];

    if (!changes || !failed || exchange->later == LATER_FAILED || exchange->later == LATER_DENIED || request->permit == NULL)
        return SUCCESS;
    if (handler_failure != NULL) (void)snprintf(note, sizeof note, "%s", error_kind_name(handler_failure->kind));
    else (void)snprintf(note, sizeof note, "status %u", request->response->status);
    return request_record_outcome(request, OUTCOME_FAILED, note, NULL, err);
}

void outcome_answer(struct exchange *exchange, const struct error *err)
{
    if (exchange->later == LATER_DENIED) denial_answer(exchange, exchange->record.decision);
    else if (exchange->later == LATER_DENIED_OFTEN) exchange_refuse(exchange, 429, DENIED_TOO_OFTEN, 1, METRIC_REFUSED_DENIED);
    else response_failure(&exchange->request, err);
}

void outcome_conclude(struct exchange *exchange, struct result result, const struct error *err)
{
    struct error unrecorded = {0};

    if (!result.ok) failure_log(&exchange->request, err);
    if (!result.ok && err->kind == ERROR_FORKED) sequencer_set_forked(exchange->request.gateway->sequencer, err);
    const bool is_unknown = !result.ok && err->kind == ERROR_UNCERTAIN; /* the client is told so in any case */
    if (!outcome_ensure(exchange, &unrecorded).ok || !record_failure(exchange, result.ok ? NULL : err, &unrecorded).ok)
        outcome_answer(exchange, is_unknown ? err : &unrecorded);
    else if (!result.ok || exchange->later == LATER_DENIED) outcome_answer(exchange, err);
}
