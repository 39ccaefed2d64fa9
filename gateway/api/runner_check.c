/* What the handlers of runners' requests share: bundles, and decisions about the repositories of an order. */
#include <stdio.h>
#include <string.h>

#include "authz/lease_name.h"
#include "base/clock.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "gateway/api/runner_work_priv.h"
#include "gateway/pipeline/resolve.h"
#include "policy/decider/decider.h"
#include "training/format/bundle.h"
#include "training/format/spec.h"
#include "training/label.h"
#include "training/standing.h"

#define SUSPENDED_TYPE "runner-suspended"

struct run_bundle_source bundle_source(const struct request *request, struct pg *pg)
{
    const struct gateway *gateway = request->gateway;

    return (struct run_bundle_source){pg, gateway->keyd, gateway->sequencer, gateway->documents, gateway->decider};
}

struct bundle_answer *bundle_answer_new(struct request *request)
{
    struct bundle_answer *answer = arena_take(request->arena, sizeof *answer);

    if (answer == NULL) return NULL;
    *answer = (struct bundle_answer){.text = BUFFER(RUN_BUNDLE_MAX)};
    request->handler_state = answer;
    return answer;
}

struct result bundle_answer(struct request *request, struct pg *pg, const struct run_bundle_query *query, struct error *err)
{
    const struct run_bundle_source source = bundle_source(request, pg);
    struct bundle_answer *answer = request->handler_state;

    buffer_clear(&answer->text);
    TRY(run_bundle_make(request->permit, &source, query, &answer->text, err));
    response_bytes(request, 200, "application/json", buffer_bytes(&answer->text));
    response_header(request, "Cache-Control", "no-store");
    return SUCCESS;
}

void bundle_release(struct request *request)
{
    struct bundle_answer *answer = request->handler_state;

    if (answer != NULL) buffer_done(&answer->text);
}

void runner_name_lease(const struct run_holder *holder, char detail_out[RESOURCE_DETAIL_MAX + 1])
{
    lease_name(&holder->run, holder->attempt, holder->node, detail_out);
}

/* ---- asking ---- */

struct result runner_target_ask(struct request *request, struct error *err)
{
    const struct enrolled_runner *runner = request->runner;
    const json_t *body = NULL;

    if (api_asks_for_credential(request, ACTION_RUNNER_ASK)) return SUCCESS;
    TRY(request_document(request, &body, err));
    const enum resource_kind kind = strchr(runner->scope, '/') != NULL ? RESOURCE_PROJECT : RESOURCE_ORGANISATION;
    struct resource *resource =
        api_pair(request, ACTION_RUNNER_ASK, runner->scope[0] == '\0' ? RESOURCE_SYSTEM : kind, runner->scope);
    (void)snprintf(resource->detail, sizeof resource->detail, "%s", runner->name);
    return SUCCESS;
}

/* What runner.ask permits is recorded for a new session only, and for what a search changes. */
struct result runner_record_asking(struct request *request, struct error *err)
{
    return request->permit != NULL ? SUCCESS : request_record(request, NULL, err);
}

struct result runner_read_session(const char *text, const char *where, uint8_t session_out[RUN_SESSION_SIZE], struct error *err)
{
    uint8_t secret[RUN_SESSION_SIZE], hash[SHA256_SIZE];

    if (text == NULL || !text_from_hex(bytes_of_text(text), secret, sizeof secret))
        return failure(err, ERROR_INVALID, "%s: 32 hex digits are expected, the session that asks for work", where);
    sha256_of((struct bytes){secret, sizeof secret}, hash);
    memcpy(session_out, hash, RUN_SESSION_SIZE);
    return SUCCESS;
}

struct result runner_check_session(struct request *request, struct pg *pg, const struct run_session *session, bool has_waited,
                                   struct error *err)
{
    enum run_session_place place = RUN_SESSION_NEW;
    struct error why = {0};

    TRY(run_session_find(lookup_of(pg), session, &place, err));
    if (place == RUN_SESSION_KNOWN) return SUCCESS;
    if (place == RUN_SESSION_OVERTAKEN || has_waited) {
        response_empty(request, 204);
        return SUCCESS;
    }
    TRY(runner_record_asking(request, err));
    if (run_session_begin(request->permit, request->gateway->sequencer, pg, session, &why).ok) return SUCCESS;
    if (why.kind != ERROR_CONFLICT) return failure(err, why.kind, "%s", why.message);
    OWNED_JSON type = json_pack("{s:s}", "type", SUSPENDED_TYPE);
    response_problem_with(request, 409, "The runner is suspended", why.message, type);
    return SUCCESS;
}

static enum run_reporter reporter_of(const struct request *request)
{
    const enum action action = request->pairs[0].action;

    return action == ACTION_RUN_FINISH || action == ACTION_RUN_REFUSE ? RUN_REPORTER_NEWEST : RUN_REPORTER_OF_LEASE;
}

struct result runner_check_reporter(const struct request *request, const struct run_held *held, struct error *err)
{
    uint8_t session[RUN_SESSION_SIZE];

    TRY(runner_read_session(request_header(request, "Sijil-Runner-Session"), "the header Sijil-Runner-Session", session, err));
    return run_held_check(held, session, reporter_of(request), err);
}

/* ---- deciding again ---- */

static struct result deny(struct request *request, const char *repository, const struct train_answer *answer,
                          char reason_out[RUN_REASON_SIZE], struct error *err)
{
    struct action_pair pair = {.action = ACTION_RUN_LEASE, .resource.kind = RESOURCE_REPOSITORY};
    const char *region = request->runner->key.region;

    (void)snprintf(pair.resource.name, sizeof pair.resource.name, "%s", repository);
    resolve_name(request, &pair.resource);
    (void)snprintf(pair.resource.region, sizeof pair.resource.region, "%s", region);
    TRY(request_record_denial(request, &pair, err));
    (void)snprintf(reason_out, RUN_REASON_SIZE, "the policies of today do not allow %.90s in %.63s: rule %.50s", repository,
                   region, answer->rule);
    return SUCCESS;
}

/* What is found while the repositories of an order are decided. */
struct trains {
    struct request *request;
    char *reason;             /* "": none is denied so far */
    struct run_duties duties; /* of all */
};

static struct result check_artifact(struct trains *trains, const json_t *artifact, struct error *err)
{
    const char *repository = artifact == NULL ? NULL : json_text_of(artifact, "repository");
    struct request *request = trains->request;
    struct train_answer answer;
    char place[RUNNER_PLACE_SIZE];

    if (repository == NULL || trains->reason[0] != '\0') return SUCCESS;
    runner_gate_name(request, place);
    TRY(decider_train(request->gateway->decider, repository, place, clock_wall_ms(), &answer, err));
    run_duties_raise(&trains->duties, &answer);
    return answer.is_allowed ? SUCCESS : deny(request, repository, &answer, trains->reason, err);
}

static struct result check_train(struct trains *trains, const struct run_envelope *order, struct error *err)
{
    const struct run_artifacts artifacts = run_spec_artifacts(run_member(order, "spec"));
    const json_t *outputs = run_member(order, "spec.outputs");

    for (size_t i = 0; i < artifacts.count; i++) TRY(check_artifact(trains, artifacts.each[i].json, err));
    for (size_t i = 0; i < json_array_size(outputs); i++) TRY(check_artifact(trains, json_array_get(outputs, i), err));
    return SUCCESS;
}

struct result runner_decide_again(struct request *request, const struct runner_again *again, enum runner_verdict *verdict_out,
                                  char reason_out[RUN_REASON_SIZE], struct error *err)
{
    const struct run_standing standing = {request->gateway->decider, request->gateway->documents, &again->where->organisation,
                                          again->order, again->asked};
    const struct run_asker asker = {request->gateway->decider, &again->where->organisation, again->asked};
    struct trains trains = {.request = request, .reason = reason_out};

    *verdict_out = RUNNER_MAY_NOT;
    TRY(run_label_check(request->gateway->decider, again->order, clock_wall_ms(), reason_out, err));
    if (reason_out[0] == '\0') TRY(run_standing_check(&standing, reason_out, err));
    if (reason_out[0] != '\0') return SUCCESS;
    TRY(check_train(&trains, again->order, err));
    *verdict_out = reason_out[0] == '\0' ? RUNNER_MAY : RUNNER_MAY_NOT_HERE;
    if (*verdict_out != RUNNER_MAY) return SUCCESS;
    run_duties_check(&asker, run_order_approvals(again->order), &trains.duties, reason_out);
    if (reason_out[0] != '\0') *verdict_out = RUNNER_MAY_NOT;
    return SUCCESS;
}
