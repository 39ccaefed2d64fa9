/* POST /api/v1/runner/runs/{reference}/token: a token for /v2, for the content that the order of a run names. */
#include <stdio.h>
#include <string.h>

#include "authz/authenticate.h"
#include "authz/run_token.h"
#include "base/clock.h"
#include "gateway/api/runner_work_priv.h"
#include "gateway/pipeline/run_gate.h"
#include "training/unproven.h"

#define ANSWER_MAX (KEYD_TOKEN_MAX + 256)

SCHEMA(run_lease, "a lease of the runner that asks", HAS_NUMBER("attempt", REQUIRED, 1, 100, "as in the lease"),
       HAS_NUMBER("node", REQUIRED, 0, 255, "as in the lease"))

SCHEMA(run_token, "a token for /v2, bound to the runner's certificate",
       HAS_TEXT("access_token", REQUIRED, FORM_FREE, 1, 0, "for Authorization: Bearer"),
       HAS_COUNT("expires_in", REQUIRED, "its life in seconds; it counts only while the lease goes on"),
       HAS_WORD("token_type", REQUIRED, "Bearer", "as RFC 6749 has it"))

struct result target_run_token(struct request *request, struct lookup *lookup, struct error *err)
{
    return runner_target_lease(request, lookup, ACTION_RUN_TOKEN, err);
}

/* The policies may forbid the run since its lease, or its requester may have lost the right to it: the next heartbeat ends it. */
static struct result decide_again(struct request *request, struct pg *pg, const struct run_holder *holder, struct run_held *held,
                                  struct error *err)
{
    OWNED(run_envelope) *order = NULL, *asked = NULL;
    enum runner_verdict verdict = RUNNER_MAY_NOT;
    char reason[RUN_REASON_SIZE];
    int64_t ends_ms = 0;

    TRY(run_lease_prove(request, pg, holder, &order, &ends_ms, err));
    TRY(run_request_find(lookup_of(pg), &holder->run, &asked, err));
    const struct runner_again again = {order, asked, &held->where};
    TRY(runner_decide_again(request, &again, &verdict, reason, err));
    if (verdict != RUNNER_MAY) return failure(err, ERROR_DENIED, "%s", reason);
    if (ends_ms < held->ends_ms) held->ends_ms = ends_ms;
    return SUCCESS;
}

static struct result mint(struct request *request, const struct run_holder *holder, const struct run_held *held,
                          struct buffer *answer, struct error *err)
{
    const struct gateway *gateway = request->gateway;
    struct run_token token = {.run = holder->run, .attempt = holder->attempt, .node = holder->node};
    const struct run_token_request wanted = {.issuer = authenticator_issuer(gateway->authenticator),
                                             .service = authenticator_service(gateway->authenticator),
                                             .token = &token,
                                             .organisation = held->where.organisation,
                                             .thumbprint = request->client_confirmation,
                                             .request = request->id,
                                             .ends_ms = held->ends_ms,
                                             .now_ms = clock_wall_ms()};

    (void)snprintf(token.key, sizeof token.key, "%s", holder->key);
    return run_token_mint(request->permit, gateway->keyd, &wanted, answer, err);
}

static struct result handle(struct request *request, struct pg *pg, struct error *err)
{
    struct buffer OWNED_BUFFER answer = BUFFER(ANSWER_MAX);
    struct run_holder holder;
    struct run_held held;

    TRY(runner_find_lease(request, pg, &holder, &held, err));
    if (runner_lease_has_ended(&held)) return failure(err, ERROR_CONFLICT, "the lease has ended: there are no tokens for it");
    TRY(decide_again(request, pg, &holder, &held, err));
    TRY(mint(request, &holder, &held, &answer, err));
    const char *text = arena_copy_text(request->arena, buffer_bytes(&answer));
    explicit_bzero(answer.data, answer.length);
    if (text == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a token");
    response_bytes(request, 200, "application/json", bytes_of_text(text));
    response_header(request, "Cache-Control", "no-store");
    return SUCCESS;
}

const struct handler handler_run_token = {.handle = handle};
