/* /api/v1/erasures: two approvers sign the erasure of a person from the log; docs/erasure.md. The work is done behind it (gateway/background/erasures.h). */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "crypto/secret.h"
#include "documents/change.h"
#include "gateway/api/erasure_priv.h"
#include "gateway/background/maintenance.h"
#include "gateway/pipeline/signed_body.h"
#include "policy/decider/decider.h"
#include "registry/metrics.h"

/* ---- targets ---- */

static struct result add_pair(struct request *request, const struct document *document, struct error *err)
{
    if (document->kind != DOCUMENT_ERASURE) return failure(err, ERROR_INVALID, "the document of an erasure is expected");
    if (request->reference != NULL && strcmp(request->reference, document->name) != 0)
        return failure(err, ERROR_INVALID, "the path and the document name different persons");
    struct resource *resource = api_pair(request, ACTION_ERASURE_ASK, RESOURCE_SYSTEM, "");
    (void)snprintf(resource->detail, sizeof resource->detail, "%s", document->name);
    return SUCCESS;
}

struct result target_erasure_ask(struct request *request, struct lookup *lookup, struct error *err)
{
    const struct signed_body *body = NULL;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_ERASURE_ASK)) return SUCCESS;
    TRY(request_envelope(request, &body, err));
    return add_pair(request, body->document, err);
}

struct result target_erasure_approve(struct request *request, struct lookup *lookup, struct error *err)
{
    const struct signed_body *body = NULL;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_ERASURE_ASK)) return SUCCESS;
    TRY(request_envelopes(request, &body, err));
    return add_pair(request, body->document, err);
}

struct result target_erasure_reject(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return erasure_target_named(request, ACTION_ERASURE_REJECT);
}

/* ---- who has signed ---- */

static struct result check_signers(const struct request *request, struct pg *pg, const struct signed_body *body,
                                   const struct erasure_case *erasure, struct error *err)
{
    struct document_signers signers;
    struct document_trust trust;

    TRY(document_trust_now(request, &trust, err));
    TRY(document_check_signers(request, body, &trust, &signers, err));
    if (signers.has_root) signers.persons[signers.count++] = (struct persons){.has_unknown = true}; /* nobody knows who that is */
    for (size_t i = 0; i < signers.count; i++) TRY(erasure_check_person(request, pg, erasure, &signers.persons[i], err));
    return body->count > 1 ? document_check(body->document, &trust, err) : SUCCESS;
}

/* Records the request first, because what follows reads the log. */
static struct result check(struct request *request, struct pg *pg, const struct signed_body *body, struct error *err)
{
    OWNED_ERASURE erasure = {.refused = NULL};
    struct document_known known;
    const char *reason = NULL;

    TRY(erasure_read(body->document, &reason, err));
    TRY(request_record(request, NULL, err));
    TRY(erasure_case_read(request, pg, ACTION_ERASURE_ASK, body->document->name, &erasure, err));
    TRY(document_check_newer(request, pg, body->document, &known, err));
    TRY(check_signers(request, pg, body, &erasure, err));
    if (erasure.is_kept) metric_add(&registry_metrics_rows[METRIC_KEPT_EVENTS], 1);
    return erasure_case_check(&erasure, err);
}

/* ---- the first signature ---- */

static struct result handle_ask(struct request *request, struct pg *pg, struct error *err)
{
    const struct signed_body *body = NULL;
    struct document_draft_change change;
    char drafter[PRINCIPAL_KEY_SIZE];

    TRY(request_envelope(request, &body, err));
    TRY(check(request, pg, body, err));
    principal_key(request->principal, drafter);
    const struct document_draft_row row = {ACTION_ERASURE_ASK, body->document, body->envelopes, body->count, drafter, NULL};
    document_draft_change_init(&change, &row);
    TRY(request_record_outcome(request, OUTCOME_COMPLETED, "a draft", &change.change, err));
    return document_answer(request, 201, body->document, 0, err);
}

/* ---- the second signature ---- */

static struct result put_in_force(struct request *request, struct pg *pg, const struct signed_body *body, struct error *err)
{
    const struct action_pair pair = {.action = ACTION_AUDIT_ERASE, .resource.kind = RESOURCE_SYSTEM};
    struct document_change change;
    char recorder[PRINCIPAL_KEY_SIZE];
    unsigned status = 0;

    principal_key(request->principal, recorder);
    const struct document_row row = {ACTION_AUDIT_ERASE, body->document, body->envelopes, body->count, recorder};
    document_change_init(&change, &row, true);
    TRY(request_record_instead(request, &pair, 1, &change.change, err));
    const uint64_t sequence = permit_sequence(request->permit);
    TRY(document_put_in_force(request, pg, DOCUMENT_ERASURE, &status, err));
    maintenance_wake(request->gateway->maintenance); /* gateway/background/erasures.h */
    return document_answer(request, status, body->document, sequence, err);
}

static struct result handle_approve(struct request *request, struct pg *pg, struct error *err)
{
    const struct signed_body *body = NULL;

    TRY(request_envelopes(request, &body, err));
    if (body->count < ERASURE_PERSONS)
        return failure(err, ERROR_INVALID, "envelopes: that of the draft, and your own as the last");
    TRY(check(request, pg, body, err));
    return put_in_force(request, pg, body, err);
}

static struct result handle_reject(struct request *request, struct pg *pg, struct error *err)
{
    (void)pg;
    return document_remove_drafts(request, DOCUMENT_ERASURE, NULL, err);
}

const struct handler handler_erasure_ask = {.handle = handle_ask};
const struct handler handler_erasure_approve = {.handle = handle_approve};
const struct handler handler_erasure_reject = {.handle = handle_reject};
