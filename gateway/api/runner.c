/* /api/v1/runner: what an enrolled runner asks for, known by its client certificate (docs/runner.md). */
#include <stdio.h>

#include "crypto/runner_certificate.h"
#include "documents/prove.h"
#include "gateway/api/api_priv.h"
#include "gateway/pipeline/runner_gate.h"

#define TRIES   3    /* each fails only if another document was pinned in the meantime */
#define PEM_MAX 4096 /* RUNNER_CERTIFICATE_MAX in base64, with its lines */

SCHEMA(runner_certificate, "the client certificate of a runner",
       HAS_TEXT("certificate", REQUIRED, FORM_FREE, 1, 0, "X.509 in PEM, for the runner's own key"),
       HAS_TIME("expires", REQUIRED, "when it ends"))

struct result target_runner_certify(struct request *request, struct lookup *lookup, struct error *err)
{
    const struct enrolled_runner *runner = request->runner;
    const json_t *body = NULL;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_RUNNER_CERTIFY)) return SUCCESS;
    TRY(request_document(request, &body, err));
    struct resource *resource = api_pair(request, ACTION_RUNNER_CERTIFY,
                                         runner->scope[0] == '\0' ? RESOURCE_SYSTEM : RESOURCE_ORGANISATION, runner->scope);
    (void)snprintf(resource->detail, sizeof resource->detail, "%s", runner->name);
    return SUCCESS;
}

static struct result certify_once(struct request *request, struct pg *pg, struct buffer *der, struct error *err)
{
    const struct document_proof_query query = {ACTION_RUNNER_CERTIFY, request->runner->scope, DOCUMENT_RUNNER,
                                               request->runner->sequence};
    OWNED(document_proof) *proof = NULL;

    TRY(document_prove(request->permit, pg, request->gateway->documents, &query, &proof, err));
    return keyd_certify_runner(request->gateway->keyd, &proof->request, der, err);
}

static struct result certify(struct request *request, struct pg *pg, struct buffer *der, struct error *err)
{
    const struct gateway *gateway = request->gateway;
    const struct document_source source = {pg, gateway->keyd, gateway->sequencer};

    for (unsigned i = 1; i < TRIES; i++) {
        const struct result certified = certify_once(request, pg, der, err);
        if (certified.ok || err->kind != ERROR_CONFLICT) return certified;
        TRY(document_view_refresh(gateway->documents, &source, err));
    }
    return certify_once(request, pg, der, err);
}

static struct result handle(struct request *request, struct pg *pg, struct error *err)
{
    struct buffer OWNED_BUFFER der = BUFFER(RUNNER_CERTIFICATE_MAX);
    struct buffer OWNED_BUFFER pem = BUFFER(PEM_MAX);
    struct runner_certificate made;

    TRY(certify(request, pg, &der, err));
    TRY(runner_certificate_read(buffer_bytes(&der), request->gateway->runner_authority, &made, err));
    TRY(runner_certificate_pem(buffer_bytes(&der), &pem, err));
    OWNED_JSON value = json_pack("{s:s}", "certificate", buffer_text(&pem));
    if (value == NULL || !api_set_time(value, "expires", made.not_after_ms))
        return failure(err, ERROR_NO_MEMORY, "no memory for a certificate");
    response_json(request, 200, value);
    return SUCCESS;
}

const struct handler handler_runner_certify = {.handle = handle};
