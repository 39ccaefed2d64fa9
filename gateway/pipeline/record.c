/* Decides requests and records the decisions. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "audit/format/row_told.h"
#include "audit/format/signed_act.h"
#include "authz/authenticate.h"
#include "base/clock.h"
#include "base/log.h"
#include "gateway/pipeline/exchange_priv.h"
#include "gateway/pipeline/run_endings.h"
#include "gateway/pipeline/run_gate.h"
#include "policy/decider/decider.h"

#define STALE_MAX 100 /* ends a loop even if the clock stands still */

static struct exchange *exchange_of_request(struct request *request)
{
    return (struct exchange *)(void *)((char *)request - offsetof(struct exchange, request));
}

static struct result decide(const struct exchange *exchange, struct decision **decision_out, struct error *err)
{
    const struct request *request = &exchange->request;
    struct decision_request question = {.principal = &exchange->principal,
                                        .pair_count = request->pair_count,
                                        .asked = request->asked,
                                        .now_ms = clock_wall_ms(),
                                        .held = request->permit};

    memcpy(question.pairs, request->pairs, sizeof question.pairs);
    question.client = request_place(request);
    return decider_decide(request->gateway->decider, &question, decision_out, err);
}

struct result exchange_decide(struct exchange *exchange, struct error *err)
{
    decision_free(exchange->decision);
    exchange->decision = NULL;
    return decide(exchange, &exchange->decision, err);
}

/* The first denial stands, with the reference that the client has named, unless the second decision allows. */
static struct result decide_or_keep(struct exchange *exchange, const struct action_pair *pair, const char *reference,
                                    struct error *err)
{
    struct request *request = &exchange->request;
    OWNED(decision) *denied = exchange->decision;

    exchange->decision = NULL;
    TRY(exchange_decide(exchange, err));
    if (decision_verdict(exchange->decision) == VERDICT_ALLOW) return SUCCESS;
    decision_free(exchange->decision);
    exchange->decision = GIVE(denied);
    request->pairs[0] = *pair;
    request->reference = reference;
    return SUCCESS;
}

struct result exchange_decide_pinned(struct exchange *exchange, struct pg *pg, bool *is_later_out, struct error *err)
{
    struct request *request = &exchange->request;
    const struct handler *handler = request->route->handler;
    const struct action_pair saved = request->pairs[0];
    const char *reference = request->reference;
    enum pinning pinning = PINNED_NOTHING;

    *is_later_out = false;
    if (handler->pin == NULL || decision_verdict(exchange->decision) != VERDICT_DENY) return SUCCESS;
    TRY(handler->pin(request, lookup_of(pg), &pinning, err));
    *is_later_out = pinning == PINNED_LATER;
    return pinning == PINNED_DIGEST ? decide_or_keep(exchange, &saved, reference, err) : SUCCESS;
}

struct result exchange_decide_instead(struct exchange *exchange, struct error *err)
{
    struct request *request = &exchange->request;
    const struct action_pair saved = request->pairs[0];

    request->route->handler->instead(request);
    assert(route_has_action(request->route, request->pairs[0].action));
    return decide_or_keep(exchange, &saved, request->reference, err);
}

void exchange_right(const struct exchange *exchange, char rule_out[65])
{
    const struct request *request = &exchange->request;
    OWNED(decision) *decision = NULL;
    struct error err = {0};
    const char *rule = "";

    if (request->run != NULL && run_endings_have(request->gateway->run_endings, &request->run->holder)) rule = "SYS-RUN-ENDED";
    else if (request->pair_count == 0)
        rule = decider_is_live(request->gateway->decider, &exchange->principal, clock_wall_ms()) ? "" : "SYS-NOT-LIVE";
    else if (!decide(exchange, &decision, &err).ok)
        rule = "SYS-UNDECIDED"; /* out of memory: a request without a decision is not allowed */
    else if (decision_verdict(decision) != VERDICT_ALLOW) rule = decision_denial(decision, 0)->rule;
    (void)snprintf(rule_out, 65, "%s", rule);
}

/* Denied requests are not counted for a project, because outsiders could use up its quota. Requests of its administrators are not
 * counted either. */
struct result exchange_take_event_quota(struct exchange *exchange, struct pg *pg, struct event_quota_answer *now_out,
                                        struct error *err)
{
    const struct request *request = &exchange->request;
    struct event_quota_answer now = {.verdict = EVENT_QUOTA_TAKEN};

    const bool counts = request->route->record != RECORD_NONE && request->speaks_oci && !exchange->shares.is_in_event_quota &&
                        !uuid_is_nil(&request->pairs[0].resource.project) &&
                        decision_verdict(exchange->decision) == VERDICT_ALLOW;
    if (counts) TRY(event_quota_take(request->gateway->event_quota, &request->pairs[0].resource.project, pg, &now, err));
    if (counts && now.verdict != EVENT_QUOTA_ASK_DATABASE) exchange->shares.is_in_event_quota = true;
    *now_out = now;
    return SUCCESS;
}

void exchange_record_prepare(struct exchange *exchange, struct change *change)
{
    static const char *const repeated[] = {EVENT_OF_REPEAT " was done again", "; " EVENT_OF_REPEAT " done"}; /* in 80 bytes */

    record_done(&exchange->record);
    exchange->record = (struct record){.decision = exchange->decision, .context = exchange_context(exchange), .change = change};
    exchange->record.context.act = exchange->act;
    exchange->decision = NULL;
    (void)snprintf(exchange->record.note, sizeof exchange->record.note, "%s%s%s", exchange->act == NULL ? "" : SIGNED_ACT_NOTE,
                   exchange->act_key, repeat_is_used(&exchange->request) ? repeated[exchange->act != NULL] : "");
}

/* If this fails, the next decision is stale again. After record_timeout the request fails for this reason. */
static void await_newer_rights(const struct request *request, uint64_t epoch)
{
    struct error err = {0};

    metric_add(&metrics_gateway[METRIC_STALE], 1);
    if (!decider_await_newer(request->gateway->decider, epoch, &err).ok) log_error("rights are not renewed", &err);
}

void exchange_record_take(struct exchange *exchange)
{
    struct record *record = &exchange->record;
    struct request *request = &exchange->request;

    if (record->status == RECORD_STALE) {
        await_newer_rights(request, record->outdated_epoch);
        return;
    }
    if (record->status == RECORD_UNAVAILABLE) {
        if (exchange->recorded == RECORDED_NOT) exchange->recorded = RECORDED_COUNTED;
        metric_add(&metrics_gateway[METRIC_UNRECORDED], 1);
        return;
    }
    exchange->recorded = record->is_in_burst ? RECORDED_COUNTED : RECORDED_EVENT;
    exchange->sequence = record->sequence;
    if (record->permit == NULL) return;
    permit_free(request->permit);
    request->permit = GIVE(record->permit);
}

/*
 * A client that made an organisation, a robot or a binding uses it next. A client that revoked one expects that it has no effect any more.
 * So this gateway has the change in force before the answer goes out. The permit has the epoch that the change raised, so any newer
 * snapshot has the change.
 */
static void await_own_change(const struct request *request, const struct record *record)
{
    struct error err = {0};

    if (record->change == NULL || !record->change->raises_epoch) return;
    if (!decider_await_newer(request->gateway->decider, permit_epoch(request->permit), &err).ok)
        log_error("a change of rights is recorded, but not in force here yet", &err);
}

/* A commit whose answer was lost may have happened. A client that is told "not done" would not look, so it is told "not known". */
static struct result not_recorded(const struct record *record, struct error *err)
{
    if (record->error.kind == ERROR_UNCERTAIN || record->error.kind == ERROR_FORKED) {
        *err = record->error;
        return (struct result){.ok = false};
    }
    return failure(err, ERROR_UNAVAILABLE, "the audit log can't be written now, so nothing was done");
}

/* An event says that the request failed; a denial that was recorded before has priority. */
static void note_failure(struct exchange *exchange)
{
    if (exchange->later == LATER_NONE) exchange->later = LATER_FAILED;
}

static struct result record_and_wait(struct exchange *exchange, struct change *change, struct error *err)
{
    TRY(repeat_claim(&exchange->request, &change, err));
    exchange_record_prepare(exchange, change);
    sequencer_submit_and_wait(exchange->request.gateway->sequencer, &exchange->record);
    exchange_record_take(exchange);
    switch (exchange->record.status) {
    case RECORD_DONE:
        repeat_recorded(&exchange->request, change);
        await_own_change(&exchange->request, &exchange->record);
        return SUCCESS;
    case RECORD_REFUSED:
        note_failure(exchange);
        *err = exchange->record.error;
        return (struct result){.ok = false};
    case RECORD_STALE: return failure(err, ERROR_CONFLICT, "the rights changed meanwhile");
    case RECORD_UNAVAILABLE: break;
    }
    return not_recorded(&exchange->record, err);
}

/* Decides again and records a denial: the request, or the mount that it asks for, is not allowed any more. */
static struct result decide_again(struct exchange *exchange, struct error *err)
{
    TRY(exchange_decide(exchange, err));
    if (decision_verdict(exchange->decision) == VERDICT_ALLOW) return SUCCESS;
    if (exchange->recorded == RECORDED_NOT && !budget_allows_denial(exchange)) {
        TRY(budget_count(exchange, METRIC_REFUSED_DENIED, err));
        exchange->later = LATER_DENIED_OFTEN;
        return failure(err, ERROR_LIMIT, DENIED_TOO_OFTEN);
    }
    TRY(record_and_wait(exchange, NULL, err));
    exchange->later = LATER_DENIED;
    return failure(err, ERROR_DENIED, "not allowed any more");
}

/* An upper bound: some of the bytes may not have left the machine. */
static uint64_t bytes_sent(const struct exchange *exchange)
{
    const struct response *response = exchange->request.response;

    if (response == NULL) return exchange->http.body_bytes;
    return response->source == NULL ? response->body.length : exchange->http.sent_bytes;
}

/* With a permit, the operation failed. Without one, it is denied now; without pairs nothing was decided, and it is only counted. */
void exchange_record_lost(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    struct error err = {0};
    char note[80];

    (void)snprintf(note, sizeof note, "%llu bytes had gone: %.44s", (unsigned long long)bytes_sent(exchange),
                   exchange->http.lease.rule);
    if (request->permit != NULL) (void)request_record_outcome(request, OUTCOME_FAILED, note, NULL, &err).ok;
    else if (request->pair_count > 0 && exchange_decide(exchange, &err).ok &&
             decision_verdict(exchange->decision) != VERDICT_ALLOW && budget_allows_denial(exchange))
        (void)record_and_wait(exchange, NULL, &err).ok;
    if (err.kind != ERROR_NONE) log_error("the end of a body whose right was lost is not recorded", &err);
}

/* A principal with the right to grant can raise the epoch many times a second. Others must not fail because of that, only wait. */
bool exchange_may_decide_again(struct exchange *exchange)
{
    const int64_t now_ms = clock_monotonic_ms(), longest_ms = exchange->request.gateway->settings->record_timeout;

    if (exchange->stale.count++ == 0) exchange->stale.since_ms = now_ms;
    return exchange->stale.count < STALE_MAX && now_ms - exchange->stale.since_ms < longest_ms;
}

static struct result record_decision(struct exchange *exchange, struct change *change, struct error *err)
{
    exchange->stale.count = 0;
    do {
        if (exchange->decision == NULL) TRY(decide_again(exchange, err));
        const struct result result = record_and_wait(exchange, change, err);
        if (result.ok || exchange->record.status != RECORD_STALE) return result;
    } while (exchange_may_decide_again(exchange));
    return failure(err, ERROR_UNAVAILABLE, "the rights change too fast to decide");
}

struct result request_record(struct request *request, struct change *change, struct error *err)
{
    if (request->permit != NULL) return request_record_outcome(request, OUTCOME_COMPLETED, "", change, err);
    return record_decision(exchange_of_request(request), change, err);
}

/* The request's saved decision, while another decision is made and recorded. */
struct saved {
    struct decision *decision;
    struct action_pair pairs[ACTION_PAIRS_MAX];
    size_t pair_count;
    enum recorded recorded;
};

static void save_decision(struct exchange *exchange, const struct action_pair *pairs, size_t pair_count, struct saved *saved_out)
{
    struct request *request = &exchange->request;

    assert(pair_count <= ACTION_PAIRS_MAX);
    *saved_out =
        (struct saved){.decision = exchange->decision, .pair_count = request->pair_count, .recorded = exchange->recorded};
    memcpy(saved_out->pairs, request->pairs, sizeof saved_out->pairs);
    memcpy(request->pairs, pairs, pair_count * sizeof *pairs);
    request->pair_count = pair_count;
    exchange->decision = NULL;
    exchange->recorded = RECORDED_NOT;
}

static void restore_decision(struct exchange *exchange, const struct saved *saved)
{
    struct request *request = &exchange->request;

    decision_free(exchange->decision);
    exchange->decision = saved->decision;
    exchange->later = LATER_NONE;
    exchange->recorded = saved->recorded;
    memcpy(request->pairs, saved->pairs, sizeof saved->pairs);
    request->pair_count = saved->pair_count;
}

struct result request_record_instead(struct request *request, const struct action_pair *pairs, size_t pair_count,
                                     struct change *change, struct error *err)
{
    struct exchange *exchange = exchange_of_request(request);
    struct saved saved;

    save_decision(exchange, pairs, pair_count, &saved);
    const struct result result = record_decision(exchange, change, err);
    if (result.ok) decision_free(saved.decision);
    else restore_decision(exchange, &saved);
    return result;
}

struct result request_record_as(struct request *request, enum action action, struct change *change, struct error *err)
{
    struct exchange *exchange = exchange_of_request(request);

    assert(request->permit == NULL && request->pair_count == 1 && route_has_action(request->route, action));
    decision_free(exchange->decision);
    exchange->decision = NULL;
    request->pairs[0].action = action;
    return record_decision(exchange, change, err);
}

struct result request_record_denial(struct request *request, const struct action_pair *pair, struct error *err)
{
    struct exchange *exchange = exchange_of_request(request);
    struct saved saved;
    struct result result = SUCCESS;

    save_decision(exchange, pair, 1, &saved);
    exchange->stale.count = 0;
    do {
        result = decide_again(exchange, err);
    } while (!result.ok && err->kind == ERROR_CONFLICT && exchange_may_decide_again(exchange));
    restore_decision(exchange, &saved);
    if (!result.ok && err->kind != ERROR_DENIED) return result;
    return SUCCESS;
}

static struct result outcome_of(struct record *record, struct error *err)
{
    switch (record->status) {
    case RECORD_DONE: return SUCCESS;
    case RECORD_REFUSED: *err = record->error; return (struct result){.ok = false};
    case RECORD_STALE: return failure(err, ERROR_CONFLICT, "the rights changed meanwhile");
    case RECORD_UNAVAILABLE: break;
    }
    return not_recorded(record, err);
}

struct result request_record_outcome(struct request *request, enum outcome outcome, const char *note, struct change *change,
                                     struct error *err)
{
    struct exchange *exchange = exchange_of_request(request);

    TRY(repeat_claim(request, &change, err));
    struct record record = {
        .under = request->permit, .outcome = outcome, .context = exchange_context(exchange), .change = change};
    (void)snprintf(record.note, sizeof record.note, "%s", note);
    sequencer_submit_and_wait(request->gateway->sequencer, &record);
    const struct result result = outcome_of(&record, err);
    const enum record_status status = record.status;
    const uint64_t outdated_epoch = record.outdated_epoch;
    if (status == RECORD_DONE) repeat_recorded(request, change);
    if (status == RECORD_DONE && !record.is_in_burst) exchange->sequence = record.sequence;
    if (status == RECORD_REFUSED || outcome == OUTCOME_FAILED) note_failure(exchange);
    record_done(&record);
    if (status != RECORD_STALE) return result;

    /* Decided under an older epoch, so the rest of the operation is decided again. The first event of the request has its signature. */
    exchange->act = NULL;
    exchange->act_key[0] = '\0';
    await_newer_rights(request, outdated_epoch);
    return record_decision(exchange, change, err);
}

static struct result record_outcome(struct recorder *recorder, enum outcome outcome, const char *note, struct change *change,
                                    struct error *err)
{
    struct request_recorder *self = (struct request_recorder *)(void *)recorder; /* its first member */

    return request_record_outcome(self->request, outcome, note, change, err);
}

void request_recorder_init(struct request_recorder *recorder, struct request *request)
{
    *recorder = (struct request_recorder){.recorder = {.record = record_outcome}, .request = request};
}
