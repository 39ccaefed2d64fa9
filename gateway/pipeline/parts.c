#include "gateway/pipeline/parts.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "gateway/pipeline/exchange_priv.h"
#include "policy/decider/decider.h"

struct parts_round {
    pthread_mutex_t mutex;
    pthread_cond_t done;
    size_t waiting;
    bool is_stale;     /* some were */
    uint64_t outdated; /* then: newer rights than these are needed */
};

static struct exchange *exchange_of_request(struct request *request)
{
    return (struct exchange *)(void *)((char *)request - offsetof(struct exchange, request));
}

static void refuse(struct request_part *part, unsigned status, const char *why)
{
    part->status = status;
    part->is_open = false;
    (void)text_copy(part->why, sizeof part->why, why);
}

static void refuse_for(struct request_part *part, const struct error *err)
{
    char words[sizeof err->message];
    const unsigned status = failure_status(err, words);

    refuse(part, status, words);
    part->is_conflict = err->kind == ERROR_CONFLICT;
}

/* A denial has the words of the answer that a request of its own would get: of what is hidden, nothing. */
static void take_denial(struct request_part *part, const struct decision *decision)
{
    const struct denial *first = decision_denial_count(decision) == 0 ? NULL : decision_denial(decision, 0);

    switch (decision_verdict(decision)) {
    case VERDICT_HIDE: refuse(part, 404, "there is no such thing"); return;
    case VERDICT_CHALLENGE: refuse(part, 401, "the credential does not suffice any more"); return;
    case VERDICT_ALLOW:
    case VERDICT_DENY: break;
    }
    refuse(part, denial_will_pass(decision) ? 503 : 403, first == NULL ? "not allowed" : first->message);
    if (first != NULL) (void)text_copy(part->rule, sizeof part->rule, first->rule);
}

/* Above a limit, or while witnesses are waited for, it has no event of its own, and is counted as a request is. */
static bool is_above(struct exchange *exchange, struct request_part *part)
{
    const bool is_allowed = decision_verdict(exchange->decision) == VERDICT_ALLOW;
    enum gateway_metric metric = METRIC_REFUSED_DENIED;
    const char *why = DENIED_TOO_OFTEN;
    unsigned status = 429;
    struct error err = {0};

    exchange->shares.is_in_grant_rate = part->is_counted;
    if (change_waits_for_witnesses(exchange)) {
        metric = METRIC_REFUSED_WITNESSES;
        why = WAITS_FOR_WITNESSES;
        status = 503;
    } else if (is_allowed && grant_rate_is_exceeded(exchange)) {
        metric = METRIC_REFUSED_RIGHTS;
        why = RIGHTS_TOO_FAST;
    } else if (part->is_counted || budget_allows_denial(exchange)) {
        part->is_counted = true;
        return false;
    }
    if (budget_count(exchange, metric, &err).ok) refuse(part, status, why);
    else refuse_for(part, &err);
    return true;
}

/* On the sequencer's thread, which must not block. */
static void part_done(struct record *record)
{
    struct parts_round *round = ((struct request_part *)(void *)((char *)record - offsetof(struct request_part, record)))->round;

    (void)pthread_mutex_lock(&round->mutex);
    round->waiting--;
    if (round->waiting == 0) (void)pthread_cond_signal(&round->done);
    (void)pthread_mutex_unlock(&round->mutex);
}

/* Decides the part, and gives it to the log. */
static bool submit(struct exchange *exchange, struct request_part *part, struct parts_round *round)
{
    struct request *request = &exchange->request;
    struct error err = {0};

    assert(route_has_action(request->route, part->pair.action));
    request->pairs[0] = part->pair;
    request->pair_count = 1;
    if (!exchange_decide(exchange, &err).ok) {
        refuse_for(part, &err);
        return false;
    }
    if (is_above(exchange, part)) {
        decision_free(exchange->decision);
        exchange->decision = NULL;
        return false;
    }
    const bool is_allowed = decision_verdict(exchange->decision) == VERDICT_ALLOW;
    part->record = (struct record){.decision = exchange->decision,
                                   .context = exchange_context(exchange),
                                   .change = is_allowed ? part->change : NULL,
                                   .done = part_done};
    part->round = round;
    exchange->decision = NULL;
    (void)pthread_mutex_lock(&round->mutex);
    round->waiting++;
    (void)pthread_mutex_unlock(&round->mutex);
    sequencer_submit(request->gateway->sequencer, &part->record);
    return true;
}

static void take(struct request_part *part, struct parts_round *round, uint64_t *epoch)
{
    const struct record *record = &part->record;

    part->sequence = record->sequence;
    switch (record->status) {
    case RECORD_STALE:
        round->is_stale = true;
        if (record->outdated_epoch > round->outdated) round->outdated = record->outdated_epoch;
        return;
    case RECORD_REFUSED: refuse_for(part, &record->error); return;
    case RECORD_UNAVAILABLE:
        metric_add(&metrics_gateway[METRIC_UNRECORDED], 1);
        refuse_for(part, &record->error);
        return;
    case RECORD_DONE: break;
    }
    part->is_open = false;
    if (decision_verdict(record->decision) != VERDICT_ALLOW) take_denial(part, record->decision);
    else if (permit_epoch(record->permit) > *epoch) *epoch = permit_epoch(record->permit);
}

/* True: some were stale. */
static bool do_round(struct exchange *exchange, struct request_part *parts, size_t count, uint64_t *epoch)
{
    struct parts_round round = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, false, 0};
    bool is_submitted[PARTS_AT_ONCE] = {false};

    for (size_t i = 0; i < count; i++)
        if (parts[i].is_open) is_submitted[i] = submit(exchange, &parts[i], &round);
    (void)pthread_mutex_lock(&round.mutex);
    while (round.waiting > 0) (void)pthread_cond_wait(&round.done, &round.mutex);
    (void)pthread_mutex_unlock(&round.mutex);
    for (size_t i = 0; i < count; i++) {
        if (!is_submitted[i]) continue;
        take(&parts[i], &round, epoch);
        record_done(&parts[i].record);
    }
    if (round.is_stale) request_await_parts(&exchange->request, round.outdated);
    return round.is_stale;
}

void request_do_parts(struct request *request, struct request_part *parts, size_t count, uint64_t *epoch)
{
    struct exchange *exchange = exchange_of_request(request);
    const struct action_pair own = request->pairs[0];
    const enum recorded recorded = exchange->recorded;

    assert(count <= PARTS_AT_ONCE && request->pair_count == 1 && request->permit != NULL && exchange->decision == NULL);
    for (size_t i = 0; i < count; i++) parts[i].is_open = parts[i].status == 0;
    exchange->stale.count = 0;
    while (do_round(exchange, parts, count, epoch) && exchange_may_decide_again(exchange)) continue;
    for (size_t i = 0; i < count; i++)
        if (parts[i].is_open) refuse(&parts[i], 503, "the rights change too fast to decide");
    request->pairs[0] = own;
    exchange->recorded = recorded;
}

void request_await_parts(const struct request *request, uint64_t epoch)
{
    struct error err = {0};

    if (!decider_await_newer(request->gateway->decider, epoch, &err).ok) log_error("rights are not renewed", &err);
}
