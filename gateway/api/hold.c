/* /api/v1/holds: an approver or the root stops erasures, and lets them go on; docs/erasure.md. */
#include <stdio.h>
#include <string.h>

#include "documents/change.h"
#include "gateway/api/erasure_priv.h"
#include "gateway/background/maintenance.h"
#include "gateway/pipeline/signed_body.h"

static struct result add_target(struct request *request, enum action action, struct error *err)
{
    const struct signed_body *body = NULL;

    if (api_asks_for_credential(request, action)) return SUCCESS;
    TRY(request_envelope(request, &body, err));
    if (body->document->kind != DOCUMENT_LEGAL_HOLD)
        return failure(err, ERROR_INVALID, "the document of a legal hold is expected");
    if (request->reference != NULL && strcmp(request->reference, body->document->name) != 0)
        return failure(err, ERROR_INVALID, "the path and the document name different holds");
    struct resource *resource = api_pair(request, action, RESOURCE_SYSTEM, "");
    (void)snprintf(resource->detail, sizeof resource->detail, "%s", body->document->name);
    return SUCCESS;
}

struct result target_hold_add(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return add_target(request, ACTION_HOLD_ADD, err);
}

struct result target_hold_release(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return add_target(request, ACTION_HOLD_RELEASE, err);
}

static struct result put_in_force(struct request *request, struct pg *pg, const struct signed_body *body, enum action action,
                                  struct error *err)
{
    struct document_trust trust;
    struct document_change change;
    char recorder[PRINCIPAL_KEY_SIZE];
    unsigned status = 0;

    TRY(document_trust_now(request, &trust, err));
    TRY(document_check(body->document, &trust, err));
    TRY(document_check_approver(request, body->document, &trust, err));
    principal_key(request->principal, recorder);
    const struct document_row row = {action, body->document, body->envelopes, body->count, recorder};
    document_change_init(&change, &row, false);
    TRY(request_record(request, &change.change, err));
    const uint64_t sequence = permit_sequence(request->permit);
    TRY(document_put_in_force(request, pg, DOCUMENT_LEGAL_HOLD, &status, err));
    maintenance_wake(request->gateway->maintenance); /* gateway/background/erasures.h */
    return document_answer(request, status, body->document, sequence, err);
}

static struct result handle_add(struct request *request, struct pg *pg, struct error *err)
{
    const struct signed_body *body = NULL;
    struct document_known known;

    TRY(request_envelope(request, &body, err));
    if (body->document->is_withdrawn) return failure(err, ERROR_INVALID, "a release is sent to its own route");
    TRY(document_check_newer(request, pg, body->document, &known, err));
    return put_in_force(request, pg, body, ACTION_HOLD_ADD, err);
}

static struct result handle_release(struct request *request, struct pg *pg, struct error *err)
{
    const struct signed_body *body = NULL;
    struct document_known known;

    TRY(request_envelope(request, &body, err));
    if (!body->document->is_withdrawn)
        return failure(err, ERROR_INVALID, "the document releases nothing: \"withdrawn\" says why");
    TRY(document_check_newer(request, pg, body->document, &known, err));
    if (known.version == 0) return failure(err, ERROR_NOT_FOUND, "there is no hold of this name");
    if (known.is_withdrawn) return failure(err, ERROR_CONFLICT, "this hold was released already");
    return put_in_force(request, pg, body, ACTION_HOLD_RELEASE, err);
}

const struct handler handler_hold_add = {.handle = handle_add};
const struct handler handler_hold_release = {.handle = handle_release};
