/* Requests that their principal signs one by one with its enrolled key: docs/identity.md, "What is signed one by one". */
#include <string.h>

#include "authz/act.h"
#include "authz/dpop_spent.h"
#include "base/clock.h"
#include "base/text.h"
#include "documents/format/signing_key.h"
#include "documents/view.h"
#include "gateway/http/path.h"
#include "gateway/pipeline/exchange_priv.h"
#include "policy/decider/decider.h"

#define REQUIRED "sign this request with your enrolled key: the header Sijil-Act (sijil: --sign-with)"

/* Those without the right get the answer that they would get without any document. */
static bool is_demanded(const struct exchange *exchange)
{
    const struct request *request = &exchange->request;
    const enum principal_kind kind = exchange->principal.kind;
    struct decider *decider = request->gateway->decider;
    const int64_t now_ms = clock_wall_ms();

    if (kind != PRINCIPAL_ROBOT && kind != PRINCIPAL_EXTERNAL) return false;
    for (size_t i = 0; i < request->pair_count; i++) {
        const struct action_pair *pair = &request->pairs[i];
        if (act_is_signed(pair->action) && decider_token_demand(decider, &pair->resource.organisation, now_ms).signed_acts &&
            decider_rights(decider, &exchange->principal, pair, now_ms) == AUTHZ_ALLOWED)
            return true;
    }
    return false;
}

static struct result read(const struct exchange *exchange, const char *text, struct dpop_proof *proof_out, struct error *err)
{
    const struct request *request = &exchange->request;
    struct act_rule rule = {
        .request = {.method = method_name(request->method), .nonces = request->gateway->nonces, .now_ms = clock_wall_ms()},
        .target = {(const uint8_t *)exchange->http.request_target, exchange->http.request_target_length},
        .body = request->body,
        .authorization = request_header(request, "Authorization")};
    char url[HOSTS_URL_SIZE];
    struct bytes query = {0};

    request_own_url(request, url);
    rule.request.url = url;
    (void)request_target_split(rule.target, &rule.request.path, &query);
    TRY(act_read(text, &rule, proof_out, err));
    return proof_out->is_fresh ? SUCCESS
                               : failure(err, ERROR_INVALID, "the signature must have the nonce of the header DPoP-Nonce");
}

/* ---- whose key it is ---- */

struct holding {
    const char *principal;
    int64_t now_ms;
    bool is_held, is_withdrawn;
};

static struct result note(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct holding *holding = context;
    struct signing_key key;

    TRY(signing_key_read(pinned->document, &key, err));
    holding->is_withdrawn = holding->is_withdrawn || pinned->document->is_withdrawn || pinned->document->is_withdrawn_elsewhere;
    holding->is_held = holding->is_held || (strcmp(key.principal, holding->principal) == 0 &&
                                            document_is_in_force(pinned->document, holding->now_ms));
    return SUCCESS;
}

/* A key that was withdrawn at another gateway just now is known: sijil-keyd is asked for its pin. */
static struct result check_key(const struct exchange *exchange, struct pg *pg, const char *key, struct error *err)
{
    const struct gateway *gateway = exchange->request.gateway;
    const struct document_source source = {pg, gateway->keyd, gateway->sequencer};
    char principal[PRINCIPAL_KEY_SIZE];
    struct holding holding = {.principal = principal, .now_ms = clock_wall_ms()};

    principal_key(&exchange->principal, principal);
    TRY(document_view_follow(gateway->documents, DOCUMENT_SIGNING_KEY, &source, err));
    TRY(document_view_visit_name(gateway->documents, DOCUMENT_SIGNING_KEY, key, note, &holding, err));
    if (holding.is_held && !holding.is_withdrawn) return SUCCESS;
    return failure(err, ERROR_INVALID, "the key that has signed this request is no enrolled key in force of who asks");
}

/* So that a verifier of the log need not know how paths are read. */
static struct result check_spelling(const struct exchange *exchange, struct error *err)
{
    const struct request *request = &exchange->request;
    struct buffer OWNED_BUFFER target = BUFFER(KEY_PROOF_SIZE_MAX);

    TRY(buffer_add(&target, exchange->http.request_target, exchange->http.request_target_length, err));
    for (size_t i = 0; i < request->pair_count; i++)
        if (signed_act_fits(action_name(request->pairs[i].action), method_name(request->method), buffer_text(&target)))
            return SUCCESS;
    return failure(err, ERROR_INVALID, "a request that is signed has its path as the documentation spells it");
}

static struct result check(struct exchange *exchange, struct pg *pg, const char *text, struct error *err)
{
    struct dpop_proof proof;

    TRY(read(exchange, text, &proof, err));
    TRY(check_spelling(exchange, err));
    TRY(check_key(exchange, pg, proof.key, err));
    (void)text_copy(exchange->act_key, sizeof exchange->act_key, proof.key);
    if (exchange->request.is_passed) return SUCCESS; /* the gateway that the client has called has spent it */
    if (dpop_spend(pg, &proof, err).ok) return SUCCESS;
    return err->kind == ERROR_CONFLICT
               ? failure(err, ERROR_INVALID, "this signature was used before: each request is signed anew")
               : (struct result){.ok = false};
}

struct result exchange_demand_act(struct exchange *exchange, struct pg *pg, struct error *err)
{
    const char *text = request_header(&exchange->request, ACT_HEADER);
    struct error wrong = {0};

    if (exchange->act != NULL || exchange_lacks_body(exchange) || !is_demanded(exchange)) return SUCCESS;
    if (text == NULL || pg == NULL) {
        exchange_refuse_principal(exchange, OAUTH_ACT, REQUIRED);
        return SUCCESS;
    }
    if (check(exchange, pg, text, &wrong).ok) {
        exchange->act = text;
        return SUCCESS;
    }
    if (wrong.kind != ERROR_INVALID) return failure(err, wrong.kind, "%s", wrong.message);
    exchange_refuse_principal(exchange, OAUTH_ACT, wrong.message);
    return SUCCESS;
}
