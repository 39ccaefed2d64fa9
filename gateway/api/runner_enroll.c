/* /api/v1/runner/enrolment: a new machine uses its code, and gets its first certificate; docs/runner.md. */
#include <stdio.h>

#include "base/json.h"
#include "gateway/api/runner_priv.h"
#include "gateway/pipeline/enrolment_gate.h"

PART(enrolment_signature, "one signature", HAS_TEXT("sig", REQUIRED, FORM_FREE, 1, 0, "ECDSA P-256 in DER, in base64"),
     HAS_TEXT("keyid", OPTIONAL, FORM_FREE, 0, 127, "the RFC 7638 thumbprint of the key that made it; not signed"))
PART(enrolment_envelope, "the runner's document, signed with the runner's key (DSSE)",
     HAS_WORD("payloadType", REQUIRED, "application/vnd.sijil.runner.v1+json", "what the payload is"),
     HAS_TEXT("payload", REQUIRED, FORM_FREE, 1, 0, "the document in base64"),
     HAS_SOME("signatures", REQUIRED, 1, 1, schema_enrolment_signature, "of the runner's key"))
SCHEMA(runner_enrolment, "a new runner", HAS_TEXT("code", REQUIRED, FORM_FREE, 68, 68, "the code of the invitation"),
       HAS_OBJECT("envelope", REQUIRED, schema_enrolment_envelope, "the document that follows from the invitation and the key"),
       HAS_TIME("issued_at", REQUIRED, "the time of the proof"),
       HAS_TEXT("proof", REQUIRED, FORM_FREE, 86, 86,
                "signature of the key over registry, time, code and document (docs/formats/documents.md)"))
SCHEMA(runner_draft, "a runner that waits for its approval",
       HAS_TEXT("name", REQUIRED, FORM_FREE, 43, 43, "the thumbprint of its key, which the approvers compare"),
       HAS_ID("runner", REQUIRED, "the runner"), HAS_WORD("state", REQUIRED, "draft", "it waits for its approvers"))
SCHEMA(runner_proof, "a runner that has no certificate yet", HAS_ID("runner", REQUIRED, "the runner"),
       HAS_TEXT("key", REQUIRED, FORM_FREE, 87, 87, "its key: base64url of the uncompressed point"),
       HAS_TIME("issued_at", REQUIRED, "the time of the proof"),
       HAS_TEXT("proof", REQUIRED, FORM_FREE, 86, 86, "signature of the key over registry, time and thumbprint"))

struct result target_runner_enroll(struct request *request, struct lookup *lookup, struct error *err)
{
    const struct signed_body *body = NULL;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_RUNNER_ENROLL)) return SUCCESS;
    TRY(enrolment_body(request, &body, err));
    const struct document *document = body->document;
    struct resource *resource = api_pair(request, ACTION_RUNNER_ENROLL,
                                         document->scope[0] == '\0' ? RESOURCE_SYSTEM : RESOURCE_ORGANISATION, document->scope);
    (void)snprintf(resource->detail, sizeof resource->detail, "%s", document->name);
    return SUCCESS;
}

/* The key must be new in every scope: a key belongs to one runner for ever. */
static struct result check_new(struct request *request, struct pg *pg, const struct document *document, struct error *err)
{
    struct known_runner known;

    TRY(document_refresh(request, pg, err));
    TRY(runner_known(request, document->scope, document->name, &known, err));
    document_free(known.document);
    return known.is_known ? failure(err, ERROR_CONFLICT, "this key was enrolled before: the runner makes a new one") : SUCCESS;
}

static struct result record(struct request *request, const struct signed_body *body, struct error *err)
{
    const struct uuid *organisation = &request->pairs[0].resource.organisation;
    char drafter[PRINCIPAL_KEY_SIZE];
    const struct document_draft_row row = {ACTION_RUNNER_ENROLL, body->document, body->envelopes,
                                           body->count,          drafter,        uuid_is_nil(organisation) ? NULL : organisation};
    struct invitation_use change;

    principal_key(request->principal, drafter);
    if (request->is_repeated) return request_record(request, NULL, err);
    invitation_use_init(&change, &row, &request->principal->id);
    return request_record(request, &change.change, err);
}

static struct result handle(struct request *request, struct pg *pg, struct error *err)
{
    const struct signed_body *body = NULL;
    char runner[UUID_TEXT_SIZE];

    TRY(enrolment_body(request, &body, err));
    TRY(check_new(request, pg, body->document, err));
    TRY(record(request, body, err));
    uuid_format(&request->principal->id, runner);
    OWNED_JSON value = json_pack("{s:s, s:s, s:s}", "name", body->document->name, "runner", runner, "state", "draft");
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a draft");
    response_json(request, request->is_repeated ? 200 : 201, value);
    return SUCCESS;
}

const struct handler handler_runner_enroll = {.handle = handle};
