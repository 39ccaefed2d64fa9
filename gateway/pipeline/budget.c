/* How much of the log one principal and one organisation may fill. Requests beyond that are counted, and answered with 429. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "authz/role.h"
#include "base/clock.h"
#include "gateway/pipeline/exchange_priv.h"
#include "policy/decider/decider.h"

#define QUEUE_SHARED 64 /* a shorter queue is not divided */
#define REALM_SIZE   (sizeof((struct principal *)0)->issuer + 16)

/* robot$acme+ci belongs to acme. */
static void organisation_of(const struct principal *principal, char organisation_out[BUDGET_ORGANISATION_SIZE])
{
    const char *first = principal->kind == PRINCIPAL_ROBOT ? strchr(principal->subject, '$') : NULL;
    const char *end = first == NULL ? NULL : strchr(first, '+');

    organisation_out[0] = '\0';
    if (end == NULL) return;
    (void)snprintf(organisation_out, BUDGET_ORGANISATION_SIZE, "%.*s", (int)(end - first - 1), first + 1);
}

/* The realm of a principal. It has one budget: the robots of an organisation, the robots of the registry itself, or the subjects
 * of an issuer. */
static void realm_of(const struct principal *principal, char realm_out[REALM_SIZE])
{
    char organisation[BUDGET_ORGANISATION_SIZE], id[UUID_TEXT_SIZE];

    organisation_of(principal, organisation);
    uuid_format(&principal->organisation, id);
    if (principal->kind == PRINCIPAL_RUNNER) (void)snprintf(realm_out, REALM_SIZE, "runners of %s", id);
    else if (principal->kind == PRINCIPAL_RUN) (void)snprintf(realm_out, REALM_SIZE, "runs of %s", id);
    else (void)snprintf(realm_out, REALM_SIZE, "%s", organisation[0] != '\0' ? organisation : principal->issuer);
}

struct key {
    const char *kind, *text, *realm;
};

static bool takes(struct exchange *exchange, const struct key *key, int64_t rate)
{
    struct quota *quota = exchange->request.gateway->quota;
    const struct quota_limits limits = {.at_a_time = UINT_MAX, .rate = (unsigned)rate, .realm = key->realm};
    struct quota_ticket ticket = {0};
    struct error err = {0};

    const bool is_within = quota_enter(quota, key->kind, key->text, &limits, &ticket, &err).ok;
    quota_leave(quota, &ticket);
    return is_within;
}

/* The principal's own budget first, so that one principal can't use up the budget of its realm. */
static bool takes_of_denials(struct exchange *exchange)
{
    const struct settings *settings = exchange->request.gateway->settings;
    char key[PRINCIPAL_KEY_SIZE], realm[REALM_SIZE];

    principal_key(exchange->request.principal, key);
    realm_of(exchange->request.principal, realm);
    return takes(exchange, &(struct key){"denied principal", key, realm}, settings->denial_rate_per_principal) &&
           takes(exchange, &(struct key){"denied organisation", realm, realm}, settings->denial_rate_per_organisation);
}

static struct result enter_principal(struct exchange *exchange, struct error *err)
{
    const struct request *request = &exchange->request;
    const struct settings *settings = request->gateway->settings;
    char realm[REALM_SIZE];
    const struct quota_limits limits = {.at_a_time = (unsigned)settings->requests_per_principal,
                                        .rate = (unsigned)settings->request_rate_per_principal,
                                        .realm = realm};
    char key[sizeof request->principal->issuer + sizeof request->principal->subject + 1];

    realm_of(request->principal, realm);
    (void)snprintf(key, sizeof key, "%s %s", request->principal->issuer, request->principal->subject);
    return quota_enter(request->gateway->quota, "principal", key, &limits, &exchange->shares.tickets[TICKET_PRINCIPAL], err);
}

unsigned budget_of_queue(const struct exchange *exchange, unsigned else_most)
{
    const struct gateway *gateway = exchange->request.gateway;
    const unsigned most = (unsigned)gateway->settings->queue_max, share = most / 8 > 0 ? most / 8 : 1;
    const bool is_pressed = most >= QUEUE_SHARED && work_waiting(gateway->readers) >= most / 2;

    return is_pressed && share < else_most ? share : else_most;
}

/* An organisation may have any number of requests at a time, while the queue is less than half full. */
static struct result enter_organisation(struct exchange *exchange, const char *realm, struct error *err)
{
    const struct settings *settings = exchange->request.gateway->settings;
    const struct quota_limits limits = {.at_a_time = budget_of_queue(exchange, UINT_MAX),
                                        .rate = (unsigned)settings->request_rate_per_organisation,
                                        .realm = realm};

    return quota_enter(exchange->request.gateway->quota, "organisation", realm, &limits,
                       &exchange->shares.tickets[TICKET_ORGANISATION], err);
}

struct result budget_enter(struct exchange *exchange, enum gateway_metric *metric_out, struct error *err)
{
    const struct request *request = &exchange->request;
    char realm[REALM_SIZE];

    if (request->principal->kind == PRINCIPAL_NONE) return SUCCESS;
    *metric_out = METRIC_REFUSED_PRINCIPAL;
    TRY(enter_principal(exchange, err));
    realm_of(request->principal, realm);
    *metric_out = METRIC_REFUSED_ORGANISATION;
    TRY(enter_organisation(exchange, realm, err));
    if (request->route->record == RECORD_NONE) return SUCCESS;
    exchange->shares.is_without_role = !decider_has_role(request->gateway->decider, request->principal, clock_wall_ms());
    *metric_out = METRIC_REFUSED_DENIED;
    if (!exchange->shares.is_without_role || takes_of_denials(exchange)) return SUCCESS;
    return failure(err, ERROR_LIMIT, "too many requests of a principal without any role; ask for less, or slower");
}

bool budget_allows_denial(struct exchange *exchange)
{
    if (exchange->request.principal->kind == PRINCIPAL_NONE || exchange->shares.is_without_role) return true;
    if (decision_verdict(exchange->decision) == VERDICT_ALLOW || denial_will_pass(exchange->decision)) return true;
    return takes_of_denials(exchange);
}

bool budget_of_workers(struct exchange *exchange)
{
    const struct request *request = &exchange->request;
    const struct uuid *organisation = &request->pairs[0].resource.organisation;
    char key[REALM_SIZE > UUID_TEXT_SIZE ? REALM_SIZE : UUID_TEXT_SIZE];

    if (request->pair_count == 0) return true;
    if (uuid_is_nil(organisation)) realm_of(request->principal, key);
    else uuid_format(organisation, key);
    return work_own(&exchange->http.job, quota_number(request->gateway->quota, "workers", key), request->route->handler->is_long);
}

/* The action and the organisation, as far as they are known by now. */
static void name_refusal(struct exchange *exchange)
{
    const struct request *request = &exchange->request;
    const bool is_resolved = request->pair_count > 0;
    const char *target = is_resolved ? request->pairs[0].resource.name : request->name;

    organisation_of(request->principal, exchange->organisation);
    exchange->refusal = (struct refusal){.organisation = exchange->organisation,
                                         .action = is_resolved ? request->pairs[0].action : request->route->actions[1],
                                         .target = target == NULL ? "" : target};
}

static void prepare(struct exchange *exchange, struct record *record)
{
    name_refusal(exchange);
    *record = (struct record){.refusal = &exchange->refusal, .context = exchange_context(exchange)};
}

static void counted(struct record *record)
{
    static const struct error unavailable = {ERROR_UNAVAILABLE, "the audit log can't be written now"};
    struct exchange *exchange = (struct exchange *)(void *)((char *)record - offsetof(struct exchange, record));

    exchange->recorded = RECORDED_COUNTED;
    if (record->status != RECORD_DONE) metric_add(&metrics_gateway[METRIC_UNRECORDED], 1);
    exchange_answer(exchange, record->status == RECORD_DONE ? NULL : &unavailable);
}

void budget_refuse(struct exchange *exchange, const char *why, unsigned wait_s, enum gateway_metric metric)
{
    exchange_say_later(exchange, 429, why, wait_s, metric);
    metric_add(&metrics_gateway[metric], 1);
    record_done(&exchange->record);
    prepare(exchange, &exchange->record);
    exchange->record.done = counted;
    sequencer_submit(exchange->request.gateway->sequencer, &exchange->record);
}

struct result budget_count(struct exchange *exchange, enum gateway_metric metric, struct error *err)
{
    struct record record;

    prepare(exchange, &record);
    sequencer_submit_and_wait(exchange->request.gateway->sequencer, &record);
    exchange->recorded = RECORDED_COUNTED;
    metric_add(&metrics_gateway[record.status == RECORD_DONE ? metric : METRIC_UNRECORDED], 1);
    if (record.status == RECORD_DONE) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "the audit log can't be written now, so nothing was done");
}
