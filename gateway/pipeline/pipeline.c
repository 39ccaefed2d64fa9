/*
 * The steps of every request, as a table:
 *   route -> authenticate -> decide -> record -> handler -> answer
 * Decisions from memory run on the event thread; steps that may block run on reader workers. If a step has to wait (for a body, for the
 * sequencer), its thread serves other requests, and the next step runs after the wait.
 */

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "authz/act.h"
#include "authz/authenticate.h"
#include "base/clock.h"
#include "base/log.h"
#include "gateway/http/path.h"
#include "gateway/http/query.h"
#include "gateway/pipeline/exchange_priv.h"
#include "gateway/pipeline/parameters.h"
#include "gateway/pipeline/resolve.h"
#include "gateway/pipeline/run_gate.h"

enum step_result {
    STEP_NEXT,   /* the next step */
    STEP_WORKER, /* the same step again, on a worker */
    STEP_WAIT,   /* the awaited event starts the next step; the exchange does not belong to this thread any more */
    STEP_ANSWER  /* there is an answer */
};

static enum step_result answer_failure(struct exchange *exchange, const struct error *err)
{
    exchange_fail(exchange, err);
    return STEP_ANSWER;
}

static enum step_result unrouted(struct exchange *exchange, const struct route_match *match)
{
    if (match->answer == ROUTE_METHOD) response_not_allowed(&exchange->request, match->methods);
    else response_unknown(&exchange->request);
    exchange_count_unrecorded(exchange, METRIC_REFUSED_ROUTE);
    return STEP_ANSWER;
}

/* A path below /v2 names a repository, so a malformed one is NAME_INVALID. */
static bool split_path(struct request *request, struct bytes path, struct path *split_out, struct error *err)
{
    request->speaks_oci = path.length > 4 && memcmp(path.data, "/v2/", 4) == 0;
    request->speaks_scim = path.length > 9 && memcmp(path.data, "/scim/v2/", 9) == 0;
    if (path_split(path, request->arena, split_out, err).ok) {
        request->speaks_oci = strcmp(split_out->segments[0], "v2") == 0;
        return true;
    }
    if (request->speaks_oci && err->kind == ERROR_INVALID) response_oci_error(request, 400, "NAME_INVALID", err->message, NULL);
    return false;
}

static struct result find_route(struct exchange *exchange, struct route_match *match_out, struct error *err)
{
    struct request *request = &exchange->request;
    const struct bytes target = {(const uint8_t *)exchange->http.request_target, exchange->http.request_target_length};
    struct bytes path = {0}, query = {0};
    struct path *split = arena_take(request->arena, sizeof *split);

    if (split == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a path");
    if (!request_target_split(target, &path, &query)) return failure(err, ERROR_INVALID, "the request target has no path");
    if (!split_path(request, path, split, err)) return (struct result){.ok = false};
    TRY(query_read(query, request->arena, &request->arguments, err));
    return route_find(request->gateway->routes, split, request->method, request->arena, match_out, err);
}

static enum step_result step_route(struct exchange *exchange, struct pg *pg)
{
    struct request *request = &exchange->request;
    struct route_match match = {0};
    struct error err = {0};

    (void)pg;
    if (!find_route(exchange, &match, &err).ok) {
        if (request->response != NULL) return STEP_ANSWER;
        if (err.kind != ERROR_LIMIT) return answer_failure(exchange, &err);
        response_error(request, 414, "UNSUPPORTED", "The query is too long", err.message);
        return STEP_ANSWER;
    }
    if (match.answer != ROUTE_FOUND || (request->is_passed && !match.route->handler->takes_passed))
        return unrouted(exchange, &match);
    request->route = match.route;
    request->name = match.name;
    request->reference = match.reference;
    if (!parameters_check(match.route, &request->arguments, &err).ok ||
        !request_check_body(request, &exchange->http.framing, &err).ok)
        return answer_failure(exchange, &err);
    return request->response == NULL ? STEP_NEXT : STEP_ANSWER;
}

static void gather(struct exchange *exchange)
{
    const struct route *route = exchange->request.route;

    http_gather(&exchange->http, route->body_limit, route->body != BODY_FORM); /* a form arrives before any decision */
}

static enum step_result step_form(struct exchange *exchange, struct pg *pg)
{
    (void)pg;
    if (exchange->request.route->body != BODY_FORM || !exchange->http.framing.has_body) return STEP_NEXT;
    gather(exchange);
    return STEP_WAIT;
}

/* Steps that may block continue on a worker, where blocking is allowed. So does a request with a proof, which is spent in the database. */
static enum step_result step_thread(struct exchange *exchange, struct pg *pg)
{
    const struct request *request = &exchange->request;

    (void)pg;
    const bool is_spent = request_header(request, "DPoP") != NULL || request_header(request, ACT_HEADER) != NULL;
    const bool is_decided_here = request->route->handler->decides_on_event_thread && !is_spent;
    return request->is_on_worker || is_decided_here ? STEP_NEXT : STEP_WORKER;
}

static enum step_result too_many(struct exchange *exchange, const char *why, unsigned wait_s, enum gateway_metric metric)
{
    budget_refuse(exchange, why, wait_s, metric);
    return STEP_WAIT;
}

static enum step_result step_authenticate(struct exchange *exchange, struct pg *pg)
{
    struct request *request = &exchange->request;
    enum gateway_metric metric = METRIC_REFUSED_PRINCIPAL;
    struct error err = {0};

    if (request->route->credential == CREDENTIAL_NONE) return STEP_NEXT;
    if (!exchange_authenticate(exchange, pg, &err).ok) return answer_failure(exchange, &err);
    const struct authentication *found = request->authentication;
    if (run_gate_waits(found, pg) || (found->is_waiting && pg == NULL)) return STEP_WORKER;
    if (found->is_waiting)
        return pause_again(exchange, ISSUER_WAIT_MS, pipeline_continue, &err).ok ? STEP_WAIT : answer_failure(exchange, &err);
    if (found->error == OAUTH_TOO_MANY) return too_many(exchange, found->description, found->wait_s, METRIC_REFUSED_SECRET);
    if (!budget_enter(exchange, &metric, &err).ok) return too_many(exchange, err.message, 1, metric);
    return exchange_spend_proof(exchange, pg, &err).ok ? STEP_NEXT : answer_failure(exchange, &err);
}

/* The body of a request without a valid credential is drained, not stored. */
static enum step_result step_gather(struct exchange *exchange, struct pg *pg)
{
    const struct request *request = &exchange->request;

    (void)pg;
    if (request->route->body != BODY_GATHERED || !exchange->http.framing.has_body) return STEP_NEXT;
    if (request->principal->kind == PRINCIPAL_NONE) return STEP_NEXT;
    gather(exchange);
    return STEP_WAIT;
}

/* A target function that names an action which routes.def does not list is a bug. */
static void require_actions(const struct request *request)
{
    assert(request->pair_count > 0);
    for (size_t i = 0; i < request->pair_count; i++) assert(route_has_action(request->route, request->pairs[i].action));
}

/* Names the pairs to decide. Only on a worker is there a connection to look names up. */
static enum step_result step_target(struct exchange *exchange, struct pg *pg)
{
    struct request *request = &exchange->request;
    struct error err = {0};

    if (request->route->record == RECORD_NONE) return STEP_NEXT;
    request->pair_count = 0;
    if (!request->route->target(request, lookup_of(pg), &err).ok) return answer_failure(exchange, &err);
    if (request->response != NULL) return STEP_ANSWER;
    require_actions(request);
    request->is_passed_on = passing_push_is_due(request);
    exchange_demand_login(exchange);
    exchange_demand_token(exchange);
    return exchange_demand_act(exchange, pg, &err).ok ? STEP_NEXT : answer_failure(exchange, &err);
}

static enum step_result step_decide(struct exchange *exchange, struct pg *pg)
{
    struct request *request = &exchange->request;
    bool is_later = false;
    struct error err = {0};

    if (request->route->record == RECORD_NONE) return STEP_NEXT;
    if (!resolve_repositories(request, lookup_of(pg), &is_later, &err).ok) return answer_failure(exchange, &err);
    if (is_later) return STEP_WORKER;
    if (!exchange_decide(exchange, &err).ok || !exchange_decide_pinned(exchange, pg, &is_later, &err).ok)
        return answer_failure(exchange, &err);
    if (is_later) return STEP_WORKER;
    if (decision_verdict(exchange->decision) == VERDICT_DENY && handler_of(request)->instead != NULL &&
        !exchange_decide_instead(exchange, &err).ok)
        return answer_failure(exchange, &err);
    if (budget_allows_denial(exchange)) return STEP_NEXT;
    return too_many(exchange, DENIED_TOO_OFTEN, 1, METRIC_REFUSED_DENIED);
}

static size_t step_of_target(void);

/* The body is gathered only after a decision that allows it. It may take long to arrive, so the right is decided again after it. */
static enum step_result step_take(struct exchange *exchange, struct pg *pg)
{
    (void)pg;
    if (!exchange_lacks_body(exchange) || decision_verdict(exchange->decision) != VERDICT_ALLOW) return STEP_NEXT;
    exchange->step = step_of_target();
    gather(exchange);
    return STEP_WAIT;
}

static enum step_result admit_stream(struct exchange *exchange)
{
    const bool is_one = exchange->request.route->body == BODY_STREAMED && decision_verdict(exchange->decision) == VERDICT_ALLOW;
    struct stream_refusal refusal = {.status = 0};

    if (!is_one || stream_enter(exchange, &refusal)) return STEP_NEXT;
    if (refusal.status == 429) return too_many(exchange, refusal.why, 1, refusal.metric);
    exchange_refuse(exchange, refusal.status, refusal.why, 1, refusal.metric);
    return STEP_ANSWER;
}

static enum step_result step_event_quota(struct exchange *exchange, struct pg *pg)
{
    static const char why[] = "the project's quota of requests for this minute is used up; Retry-After says when to come again";
    struct event_quota_answer now = {.verdict = EVENT_QUOTA_TAKEN};
    struct error err = {0};

    if (change_waits_for_witnesses(exchange)) {
        exchange_refuse(exchange, 503, WAITS_FOR_WITNESSES, 60, METRIC_REFUSED_WITNESSES);
        return STEP_ANSWER;
    }
    if (grant_rate_is_exceeded(exchange)) return too_many(exchange, RIGHTS_TOO_FAST, 1, METRIC_REFUSED_RIGHTS);
    if (run_rate_is_exceeded(exchange)) return too_many(exchange, RUNS_TOO_FAST, 1, METRIC_REFUSED_PROJECT);
    if (!exchange_take_event_quota(exchange, pg, &now, &err).ok) return answer_failure(exchange, &err);
    if (now.most > 0) exchange->limit = (struct rate_limit){"requests-per-minute", now.most, 60, now.wait_s, now.left};
    if (now.verdict == EVENT_QUOTA_TAKEN) return admit_stream(exchange);
    return now.verdict == EVENT_QUOTA_ASK_DATABASE ? STEP_WORKER : too_many(exchange, why, now.wait_s, METRIC_REFUSED_PROJECT);
}

static void continue_later(struct exchange *exchange);
static void run_steps(struct exchange *exchange, struct pg *pg);

/* On the sequencer's thread, which must not block. */
static void recorded(struct record *record)
{
    struct exchange *exchange = (struct exchange *)(void *)((char *)record - offsetof(struct exchange, record));
    const bool is_allowed = record->status == RECORD_DONE && decision_verdict(record->decision) == VERDICT_ALLOW;

    if (record->status != RECORD_STALE && exchange->recorded == RECORDED_NOT)
        exchange->recorded = RECORDED_COUNTED; /* also if no thread waits for the record any more; step_recorded() replaces it */
    if (is_allowed && handler_of(&exchange->request)->fast_path != NULL) http_resume(&exchange->http, PHASE_FAST_PATH);
    else continue_later(exchange);
}

static enum step_result step_record(struct exchange *exchange, struct pg *pg)
{
    struct request *request = &exchange->request;
    const struct handler *handler = handler_of(request);

    (void)pg;
    exchange->record.done = NULL;
    if (request->route->record == RECORD_NONE) return STEP_NEXT;
    const bool is_allowed = decision_verdict(exchange->decision) == VERDICT_ALLOW;
    if (is_allowed && !budget_of_workers(exchange)) return STEP_WORKER;
    if (request->route->record >= RECORD_WITH_CHANGE && is_allowed) return STEP_NEXT;
    exchange_record_prepare(exchange, is_allowed && handler->search != NULL ? handler->search(request) : NULL);
    exchange->record.done = recorded;
    sequencer_submit(request->gateway->sequencer, &exchange->record);
    return STEP_WAIT;
}

static enum step_result step_recorded(struct exchange *exchange, struct pg *pg)
{
    static const struct error unavailable = {ERROR_UNAVAILABLE, "the audit log can't be written now"};
    static const struct error unstable = {ERROR_UNAVAILABLE, "the rights change too fast to decide"};
    struct record *record = &exchange->record;

    (void)pg;
    if (record->done == NULL) return STEP_NEXT; /* the record is made later, together with a change */
    exchange_record_take(exchange);
    switch (record->status) {
    case RECORD_DONE:
        if (decision_verdict(record->decision) == VERDICT_ALLOW) return STEP_NEXT;
        denial_answer(exchange, record->decision);
        return STEP_ANSWER;
    case RECORD_STALE:
        exchange->step = step_of_target();
        return exchange_may_decide_again(exchange) ? STEP_NEXT : answer_failure(exchange, &unstable);
    case RECORD_REFUSED:
        if (handler_of(&exchange->request)->refused == NULL) break;
        handler_of(&exchange->request)->refused(&exchange->request, &record->error);
        return STEP_ANSWER;
    case RECORD_UNAVAILABLE: break;
    }
    if (record->error.kind == ERROR_FORKED) return answer_failure(exchange, &record->error);
    return answer_failure(exchange, &unavailable);
}

/* A repeat of a request is answered as the first one was; the work is not done again. */
static struct result handle(struct exchange *exchange, struct pg *pg, struct error *err)
{
    struct request *request = &exchange->request;
    bool is_answered = false;

    TRY(repeat_begin(exchange, pg, &is_answered, err));
    if (is_answered) return SUCCESS;
    const struct result result = handler_of(request)->handle(request, pg, err);
    if (result.ok) repeat_keep(request, pg);
    else (void)repeat_was_beaten(request, pg, err);
    return result;
}

static void run_passed_on(struct http_exchange *http, void *worker_state)
{
    (void)worker_state;
    run_steps(exchange_of(http), NULL);
}

static enum step_result step_handle(struct exchange *exchange, struct pg *pg)
{
    struct request *request = &exchange->request;
    struct error err = {0};

    if (request->is_passed_on && !exchange->has_begun) {
        exchange->has_begun = true;
        exchange->step--; /* it is run again, there */
        passings_do(request, run_passed_on);
        return STEP_WAIT;
    }
    exchange->has_begun = true;
    if (request->route->body == BODY_STREAMED) return stream_begin(exchange, pg) ? STEP_WAIT : STEP_ANSWER;
    request->wait_ms = 0;
    const struct result result = handle(exchange, pg, &err);
    if (result.ok && request->rest != NULL) {
        passings_do_rest(request);
        return STEP_WAIT;
    }
    const bool waits = result.ok && request->wait_ms > 0, has_answer = request->response != NULL;
    if (has_answer || !waits) outcome_conclude(exchange, result, &err);
    else exchange->step--; /* the same step is run again */
    if (!waits) return STEP_ANSWER;
    pause_begin(exchange, pipeline_continue);
    return STEP_WAIT;
}

static const struct step {
    const char *name;
    enum step_result (*run)(struct exchange *exchange, struct pg *pg);
} steps[] = {
    {"route", step_route},
    {"form", step_form},
    {"thread", step_thread},
    {"authenticate", step_authenticate},
    {"gather", step_gather},
    {"target", step_target},
    {"decide", step_decide},
    {"take", step_take},
    {"event_quota", step_event_quota},
    {"record", step_record},
    {"recorded", step_recorded},
    {"handle", step_handle},
};
#define STEP_COUNT (sizeof steps / sizeof steps[0])

static size_t step_of_target(void)
{
    size_t step = 0;

    while (steps[step].run != step_target) step++;
    return step;
}

static bool waited_too_long(const struct exchange *exchange)
{
    const int64_t longest_ms = exchange->request.gateway->settings->queue_timeout;

    return !exchange->has_begun && clock_monotonic_ms() - exchange->http.queued_ms > longest_ms;
}

static void run_steps(struct exchange *exchange, struct pg *pg)
{
    enum step_result result = STEP_NEXT;

    while (result == STEP_NEXT && exchange->step < STEP_COUNT) result = steps[exchange->step++].run(exchange, pg);
    if (result == STEP_WORKER) {
        exchange->step--;
        continue_later(exchange);
    } else if (result != STEP_WAIT) {
        exchange_answer(exchange, NULL);
    }
}

static void run_on_worker(struct http_exchange *http, void *worker_state)
{
    struct exchange *exchange = exchange_of(http);
    const struct error late = {ERROR_UNAVAILABLE, "no worker was free in time"};

    exchange->request.is_on_worker = true;
    if (!waited_too_long(exchange)) {
        run_steps(exchange, worker_state);
        return;
    }
    exchange_count_unrecorded(exchange, METRIC_REFUSED_BUSY);
    exchange_answer(exchange, &late);
}

static void continue_later(struct exchange *exchange)
{
    const struct error busy = {ERROR_UNAVAILABLE, "too many requests wait already; try again in a second"};

    if (!http_submit(&exchange->http, exchange->request.gateway->readers, run_on_worker)) exchange_answer(exchange, &busy);
}

void pipeline_start(struct http_exchange *http)
{
    run_steps(exchange_of(http), NULL);
}

bool pipeline_fast_path(struct http_exchange *http)
{
    struct exchange *exchange = exchange_of(http);
    struct request *request = &exchange->request;

    exchange_record_take(exchange);
    exchange->has_begun = true;
    exchange->http.phase = PHASE_ANSWER;
    const bool is_answered = handler_of(request)->fast_path(request);
    if (is_answered && http_answer_directly(&exchange->http)) return true;
    exchange->http.phase = PHASE_WORK;
    exchange->step =
        is_answered ? STEP_COUNT
                    : STEP_COUNT - 1; /* an answer with a source: its first bytes must be read; no answer: the handler must run */
    http_suspend(&exchange->http);
    continue_later(exchange);
    return false;
}

void pipeline_continue(struct exchange *exchange)
{
    continue_later(exchange);
}
