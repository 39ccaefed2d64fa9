/* Makes the answers to denied requests. */
#include <stdio.h>
#include <string.h>

#include "authz/challenge.h"
#include "authz/step_up.h"
#include "gateway/pipeline/exchange_priv.h"
#include "gateway/pipeline/token_endpoint.h"
#include "policy/evaluate.h"

/* RFC 6750 section 3. Built from the route and the Host header only, so that it is the same whether or not the resource exists. */
static struct result challenge_text(const struct request *request, struct buffer *text, struct error *err)
{
    const char *wanted = request->gateway->settings->step_up_acr;
    char url[HOSTS_URL_SIZE];
    struct authentication found = {0};
    struct token_scope scope;

    if (request->route->credential == CREDENTIAL_MINT)
        return buffer_format(text, err, "Basic realm=\"%s\"", request->gateway->settings->service);
    if (request->authentication != NULL) found = *request->authentication;
    if (found.error == OAUTH_NONE && found.principal.kind != PRINCIPAL_NONE) found.error = OAUTH_INSUFFICIENT_SCOPE;
    token_scope_of_pairs(request->pairs, request->pair_count, &scope);
    request_own_url(request, url);
    const struct challenge challenge = {.url = url,
                                        .service = authenticator_service(request->gateway->authenticator),
                                        .scope = &scope,
                                        .authentication = &found,
                                        .acr_values = strcmp(wanted, STEP_UP_ANY) == 0 ? NULL : wanted,
                                        .is_dpop = found.needs_proof || request_speaks_dpop(request)};
    return challenge_write(&challenge, text, err);
}

static void challenge_header(struct request *request)
{
    struct buffer OWNED_BUFFER text = BUFFER(CHALLENGE_MAX);
    struct error err = {0};

    if (challenge_text(request, &text, &err).ok) response_header(request, "WWW-Authenticate", "%s", buffer_text(&text));
    else response_failure(request, &err);
}

/* Clients of /token read RFC 6749's errors. Only a refused credential gets a challenge. */
static void refuse_token(struct request *request)
{
    const struct authentication *found = request->authentication;

    if (found == NULL || found->error == OAUTH_NONE)
        token_refuse(request, OAUTH_INVALID_CLIENT, "a robot's name and secret, or an issuer's token, is needed");
    else token_refuse(request, found->error, found->description);
    if (request->response->status == 401) challenge_header(request);
}

static void challenge(struct request *request)
{
    const struct authentication *authentication = request->authentication;
    const char *why = authentication == NULL || authentication->error == OAUTH_NONE
                          ? "a token for this is needed; the header WWW-Authenticate says where to get it"
                          : authentication->description;

    if (request->route->credential == CREDENTIAL_MINT) {
        refuse_token(request);
        return;
    }
    response_error(request, 401, "UNAUTHORIZED", "A credential is needed", why);
    challenge_header(request);
}

static json_t *reason_of(const struct denial *denial)
{
    json_t *reason = json_pack("{s:s, s:s, s:s}", "rule", denial->rule, "policy", denial->policy, "message", denial->message);

    if (reason != NULL && denial->missing[0] != '\0') (void)json_object_set_new(reason, "missing", json_string(denial->missing));
    if (reason != NULL && denial->failed[0] != '\0') (void)json_object_set_new(reason, "failed", json_string(denial->failed));
    return reason;
}

/* "run.request acme/models (train, ingest)": what the rules speak of, because one rule is for many repositories and operations. */
static struct result write_pair(const struct action_pair *pair, struct buffer *text, struct error *err)
{
    const unsigned operations = action_operations(pair->action);
    const char *before = " (";

    TRY(buffer_format(text, err, "%s%s%s%s", text->length == 0 ? "" : "; ", action_name(pair->action),
                      pair->resource.name[0] == '\0' ? "" : " ", pair->resource.name));
    for (unsigned bit = 1; bit != 0 && bit <= operations; bit <<= 1) {
        const char *name = (operations & bit) == 0 ? NULL : policy_operation_name(bit);
        if (name == NULL) continue;
        TRY(buffer_format(text, err, "%s%s", before, name));
        before = ", ";
    }
    return before[0] == ',' ? buffer_add_text(text, ")", err) : SUCCESS;
}

/* Without memory it is left out. */
static void add_asked(const struct request *request, json_t *detail)
{
    struct buffer OWNED_BUFFER text = BUFFER(ACTION_PAIRS_MAX * (RESOURCE_NAME_MAX + 256));
    struct error ignored = {0};

    for (size_t i = 0; i < request->pair_count; i++)
        if (!write_pair(&request->pairs[i], &text, &ignored).ok) return;
    if (text.length > 0) (void)json_object_set_new(detail, "asked", json_string(buffer_text(&text)));
}

/* The first denial is at the top level; all denials, the first one included, are in "denials". */
static json_t *detail_of(const struct decision *decision)
{
    const size_t count = decision_denial_count(decision);
    json_t *detail = count == 0 ? json_object() : reason_of(decision_denial(decision, 0));
    json_t *denials = json_array();

    for (size_t i = 0; denials != NULL && i < count; i++)
        (void)json_array_append_new(denials, reason_of(decision_denial(decision, i)));
    (void)json_object_del(detail, "message");
    (void)json_object_set_new(detail, "decision", json_string(decision_id(decision)));
    (void)json_object_set_new(detail, "denials", denials);
    return detail;
}

bool denial_will_pass(const struct decision *decision)
{
    const struct denial *first = decision_denial_count(decision) == 0 ? NULL : decision_denial(decision, 0);

    return first != NULL && strcmp(first->policy, "sys") == 0 && strcmp(first->rule, "SYS-STALE") == 0;
}

static void refuse(struct request *request, const struct decision *decision)
{
    const char *message = decision_denial_count(decision) == 0 ? "not allowed" : decision_denial(decision, 0)->message;
    OWNED_JSON detail = detail_of(decision);
    add_asked(request, detail);
    const bool is_over_soon = denial_will_pass(decision);

    if (request->speaks_oci)
        response_oci_error(request, is_over_soon ? 503 : 403, is_over_soon ? "UNAVAILABLE" : "DENIED", message, detail);
    else
        response_problem_with(request, is_over_soon ? 503 : 403, is_over_soon ? "Rights can't be read now" : "Not allowed",
                              message, detail);
    if (is_over_soon) response_header(request, "Retry-After", "%d", 2);
}

void denial_answer(struct exchange *exchange, const struct decision *decision)
{
    struct request *request = &exchange->request;

    switch (decision_verdict(decision)) {
    case VERDICT_CHALLENGE: challenge(request); return;
    case VERDICT_HIDE: response_unknown(request); return;
    case VERDICT_ALLOW:
    case VERDICT_DENY: break;
    }
    refuse(request, decision);
}
