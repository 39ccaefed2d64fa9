/* The credential of a request: the step "authenticate". */
#include <string.h>
#include <strings.h>

#include "authz/authenticate.h"
#include "authz/dpop_spent.h"
#include "authz/step_up.h"
#include "base/clock.h"
#include "gateway/http/path.h"
#include "gateway/pipeline/enrolment_gate.h"
#include "gateway/pipeline/exchange_priv.h"
#include "gateway/pipeline/run_gate.h"
#include "gateway/pipeline/runner_gate.h"
#include "gateway/pipeline/token_endpoint.h"

static enum credential_endpoint endpoint_of(enum credential_kind kind)
{
    if (kind == CREDENTIAL_MINT) return CREDENTIAL_AT_TOKEN;
    return kind == CREDENTIAL_SESSION ? CREDENTIAL_AT_SESSION : CREDENTIAL_AT_ROUTE;
}

static struct credential credential_of(const struct request *request)
{
    const char *thumbprint = request->client_confirmation;

    return (struct credential){
        .endpoint = endpoint_of(request->route->credential),
        .takes_secrets = request->speaks_oci || request->speaks_scim,
        .takes_bare_secrets = request->speaks_scim,
        .authorization = request_header(request, "Authorization"),
        .thumbprint = thumbprint[0] == '\0' ? NULL : thumbprint,
        .proof = request->proof,
        .client = request_client(request),
        .now_ms = clock_wall_ms(),
    };
}

void request_own_url(const struct request *request, char url_out[HOSTS_URL_SIZE])
{
    const struct settings *settings = request->gateway->settings;
    const struct hosts hosts = {settings->public_url, settings->allowed_hosts};
    const char *host = request_header(request, "Host"); /* http_check() requires it */

    hosts_url(&hosts, host == NULL ? "" : host, url_out);
}

bool request_speaks_dpop(const struct request *request)
{
    const char *authorization = request_header(request, "Authorization");

    return request_header(request, "DPoP") != NULL || (authorization != NULL && strncasecmp(authorization, "DPoP ", 5) == 0);
}

static void refuse(struct authentication *found, enum oauth_error error, const char *description)
{
    *found = (struct authentication){.error = error};
    (void)memccpy(found->description, description, '\0', sizeof found->description - 1);
}

/* Runners, and those that become one, prove a key of their own, so a proof says nothing there. */
static bool takes_proofs(const struct request *request)
{
    const enum credential_kind kind = request->route->credential;

    return kind != CREDENTIAL_RUNNER && kind != CREDENTIAL_CODE && kind != CREDENTIAL_KEY;
}

/* The header DPoP, once for each request. */
static struct result read_proof(struct exchange *exchange, struct authentication *found, struct error *err)
{
    struct request *request = &exchange->request;
    const char *text = request_header(request, "DPoP");
    const struct bytes target = {(const uint8_t *)exchange->http.request_target, exchange->http.request_target_length};
    struct dpop_rule rule = {
        .method = method_name(request->method), .nonces = request->gateway->nonces, .now_ms = clock_wall_ms()};
    char url[HOSTS_URL_SIZE];
    struct bytes query = {0};
    struct error wrong = {0};

    found->error = OAUTH_NONE;
    if (text == NULL || request->proof != NULL || !takes_proofs(request)) return SUCCESS;
    struct dpop_proof *proof = arena_take(request->arena, sizeof *proof);
    if (proof == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a proof");
    request_own_url(request, url);
    rule.url = url;
    (void)request_target_split(target, &rule.path, &query); /* it has a path, or no route was found */
    if (!dpop_read(text, &rule, proof, &wrong).ok) {
        if (wrong.kind == ERROR_NO_MEMORY) return failure(err, ERROR_NO_MEMORY, "%s", wrong.message);
        refuse(found, OAUTH_INVALID_PROOF, wrong.message);
    } else if (!proof->is_fresh) {
        refuse(found, OAUTH_USE_NONCE, "the proof must have the nonce of the header DPoP-Nonce, which is new every five minutes");
    } else {
        request->proof = proof;
    }
    return SUCCESS;
}

static struct result check(struct request *request, struct pg *pg, const struct credential *credential,
                           struct authentication *found, struct error *err)
{
    switch (request->route->credential) {
    case CREDENTIAL_RUNNER: return runner_authenticate(request, pg, credential, found, err);
    case CREDENTIAL_CODE: return enrolment_authenticate(request, pg, credential, found, err);
    case CREDENTIAL_KEY: return enrolment_key_authenticate(request, pg, credential, found, err);
    case CREDENTIAL_MINT: return token_authenticate(request, credential, found, err);
    case CREDENTIAL_NONE:
    case CREDENTIAL_REGISTRY:
    case CREDENTIAL_SESSION: break;
    }
    return authenticate(request->gateway->authenticator, credential, found, err);
}

struct result exchange_authenticate(struct exchange *exchange, struct pg *pg, struct error *err)
{
    struct request *request = &exchange->request;
    struct authentication *found = exchange->found != NULL ? exchange->found : arena_take(request->arena, sizeof *found);
    const bool is_at_token = request->route->credential == CREDENTIAL_MINT;

    exchange->found = found;
    if (is_at_token && exchange->rule == NULL) exchange->rule = arena_take(request->arena, sizeof *exchange->rule);
    request->rule = exchange->rule;
    if (found == NULL || (is_at_token && exchange->rule == NULL))
        return failure(err, ERROR_NO_MEMORY, "no memory for a credential");
    TRY(read_proof(exchange, found, err));
    if (found->error == OAUTH_NONE) {
        struct credential credential = credential_of(request);
        credential.rule = exchange->rule;
        TRY(check(request, pg, &credential, found, err));
        step_up_forget(&found->principal, request->gateway->settings->step_up_clients);
        TRY(run_gate(request, pg, found, err));
    }
    request->authentication = found;
    if (found->error == OAUTH_NONE && !run_gate_waits(found, pg)) exchange->principal = found->principal;
    return SUCCESS;
}

/* The request goes on without a principal. The log says whose credential was used: a replayed proof is one that was stolen. */
void exchange_refuse_principal(struct exchange *exchange, enum oauth_error error, const char *description)
{
    struct principal *refused = arena_take(exchange->request.arena, sizeof *refused);

    if (refused != NULL) *refused = exchange->principal; /* else the event names nobody */
    exchange->refused = refused;
    exchange->principal = (struct principal){.kind = PRINCIPAL_NONE};
    refuse(exchange->found, error, description);
}

struct result exchange_spend_proof(struct exchange *exchange, struct pg *pg, struct error *err)
{
    struct request *request = &exchange->request;
    struct error wrong = {0};

    if (request->is_passed) return SUCCESS; /* the gateway that the client has called has spent it */
    if (request->proof == NULL || exchange->principal.kind == PRINCIPAL_NONE || dpop_spend(pg, request->proof, &wrong).ok)
        return SUCCESS;
    if (wrong.kind != ERROR_CONFLICT) return failure(err, wrong.kind, "%s", wrong.message);
    exchange_refuse_principal(exchange, OAUTH_INVALID_PROOF, wrong.message);
    return SUCCESS;
}

void exchange_demand_login(struct exchange *exchange)
{
    const struct request *request = &exchange->request;
    const char *wanted = request->gateway->settings->step_up_acr;
    unsigned age_s = 0;

    for (size_t i = 0; i < request->pair_count; i++) {
        if (step_up_is_met(&exchange->principal, request->pairs[i].action, wanted, clock_wall_ms(), &age_s)) continue;
        exchange_refuse_principal(exchange, OAUTH_STEP_UP,
                                  "this needs a fresh login at your issuer: log in again with a browser, then repeat it");
        exchange->found->age_s = age_s;
        return;
    }
}

/* What the request comes with does not suffice, or NULL. Those without the right get the answer that they would get without any document. */
static const char *unmet(const struct exchange *exchange, struct token_demand *demand)
{
    const struct request *request = &exchange->request;
    struct decider *decider = request->gateway->decider;

    for (size_t i = 0; i < request->pair_count; i++) {
        const struct action_pair *pair = &request->pairs[i];
        const int64_t now_ms = clock_wall_ms();
        *demand = decider_token_demand(decider, &pair->resource.organisation, now_ms);
        const char *why = token_demand_refusal(demand, &exchange->principal);
        if (why != NULL && decider_rights(decider, &exchange->principal, pair, now_ms) == AUTHZ_ALLOWED) return why;
    }
    return NULL;
}

static const char *unmet_at_token(struct exchange *exchange, struct token_demand *demand)
{
    struct request *request = &exchange->request;
    const struct token_bonds bonds = {request->proof != NULL, request->client_confirmation[0] != '\0'};

    *demand = token_demanded(request);
    return token_demand_bonds(demand, bonds);
}

/* Runners and runs have keys and certificates of their own; a directory (SCIM) can't send proofs. */
static bool may_be_unbound(const struct request *request)
{
    const enum principal_kind kind = request->principal->kind;

    return (kind != PRINCIPAL_ROBOT && kind != PRINCIPAL_EXTERNAL) || request->speaks_scim;
}

const char *request_token_refusal(const struct request *request, const struct uuid *organisation)
{
    const struct token_demand demand = decider_token_demand(request->gateway->decider, organisation, clock_wall_ms());

    return may_be_unbound(request) ? NULL : token_demand_refusal(&demand, request->principal);
}

void exchange_demand_token(struct exchange *exchange)
{
    const bool is_at_token = exchange->request.route->credential == CREDENTIAL_MINT;
    struct token_demand demand = {0};

    if (may_be_unbound(&exchange->request)) return;
    const char *why = is_at_token ? unmet_at_token(exchange, &demand) : unmet(exchange, &demand);
    if (why == NULL) return;
    const bool needs_proof = demand.key || demand.any;
    const enum oauth_error at_token = needs_proof ? OAUTH_INVALID_PROOF : OAUTH_INVALID_REQUEST;
    exchange_refuse_principal(exchange, is_at_token ? at_token : OAUTH_INVALID_TOKEN, why);
    exchange->found->needs_proof = needs_proof;
}
