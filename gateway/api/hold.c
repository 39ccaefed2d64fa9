/* /api/v1/holds: one approver, or the root, places a legal hold; two approvers release it. docs/erasure.md, docs/deletion.md. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "documents/change.h"
#include "gateway/api/erasure_priv.h"
#include "gateway/background/holds.h"
#include "gateway/background/maintenance.h"
#include "gateway/pipeline/signed_body.h"

/* ---- targets ---- */

static struct result add_pair(struct request *request, enum action action, const struct document *document, struct error *err)
{
    if (document->kind != DOCUMENT_LEGAL_HOLD) return failure(err, ERROR_INVALID, "the document of a legal hold is expected");
    if (request->reference != NULL && strcmp(request->reference, document->name) != 0)
        return failure(err, ERROR_INVALID, "the path and the document name different holds");
    struct resource *resource = api_pair(request, action, RESOURCE_SYSTEM, "");
    (void)snprintf(resource->detail, sizeof resource->detail, "%s", document->name);
    return SUCCESS;
}

struct result target_hold_add(struct request *request, struct lookup *lookup, struct error *err)
{
    const struct signed_body *body = NULL;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_HOLD_ADD)) return SUCCESS;
    TRY(request_envelope(request, &body, err));
    if (body->document->is_withdrawn) return failure(err, ERROR_INVALID, "a release is sent to its own route");
    return add_pair(request, legal_hold_persons(body->document) > 1 ? ACTION_HOLD_ASK : ACTION_HOLD_ADD, body->document, err);
}

struct result target_hold_ask(struct request *request, struct lookup *lookup, struct error *err)
{
    const struct signed_body *body = NULL;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_HOLD_ASK)) return SUCCESS;
    TRY(request_envelope(request, &body, err));
    if (!body->document->is_withdrawn)
        return failure(err, ERROR_INVALID, "the document releases nothing: \"withdrawn\" says why");
    return add_pair(request, ACTION_HOLD_ASK, body->document, err);
}

struct result target_hold_approve(struct request *request, struct lookup *lookup, struct error *err)
{
    const struct signed_body *body = NULL;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_HOLD_RELEASE)) return SUCCESS;
    TRY(request_envelopes(request, &body, err));
    return add_pair(request, body->document->is_withdrawn ? ACTION_HOLD_RELEASE : ACTION_HOLD_ADD, body->document, err);
}

struct result target_hold_reject(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return erasure_target_named(request, ACTION_HOLD_REJECT);
}

struct result target_hold_list(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    (void)api_pair(request, ACTION_HOLD_READ, RESOURCE_SYSTEM, "");
    return SUCCESS;
}

struct result target_hold_show(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return erasure_target_named(request, ACTION_HOLD_READ);
}

/* ---- what is checked ---- */

struct tally {
    const char *but;
    int64_t now_ms;
    unsigned count;
};

/* One that begins later counts from now on: all of them may be in force at one time. */
static bool has_ended(const struct document *document, int64_t now_ms)
{
    return document->is_withdrawn || (document->expires_ms != 0 && document->expires_ms <= now_ms);
}

static struct result count_one(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct tally *tally = context;

    (void)err;
    if (!has_ended(pinned->document, tally->now_ms) && strcmp(pinned->document->name, tally->but) != 0) tally->count++;
    return SUCCESS;
}

/* Each removal looks at all of them. */
static struct result check_room(const struct request *request, const struct document *document, struct error *err)
{
    struct tally tally = {document->name, clock_wall_ms(), 0};

    TRY(document_view_visit_all(request->gateway->documents, DOCUMENT_LEGAL_HOLD, count_one, &tally, err));
    if (document->is_withdrawn || tally.count < HOLDS_MAX) return SUCCESS;
    return failure(err, ERROR_LIMIT, "a registry has at most %d legal holds that have not ended: use a wider one", HOLDS_MAX);
}

/* All that does not depend on who has signed. */
static struct result check_document(struct request *request, struct pg *pg, const struct document *document, struct error *err)
{
    struct document_known known;
    struct legal_hold hold;

    TRY(document_check_newer(request, pg, document, &known, err));
    if (!document->is_withdrawn) TRY(legal_hold_read(document, &hold, err));
    if (document->is_withdrawn && known.version == 0) return failure(err, ERROR_NOT_FOUND, "there is no hold of this name");
    if (document->is_withdrawn && known.is_withdrawn) return failure(err, ERROR_CONFLICT, "this hold was released already");
    return check_room(request, document, err);
}

static struct result check_persons(const struct request *request, const struct signed_body *body, struct document_trust *trust,
                                   struct error *err)
{
    struct document_signers signers;

    TRY(document_trust_now(request, trust, err));
    TRY(document_check_signers(request, body, trust, &signers, err));
    if (!signers.has_root) return SUCCESS;
    return failure(err, ERROR_DENIED, "two persons release a hold, and nobody knows which person holds the root's key");
}

/* ---- coming into force ---- */

/* Until the rows are as the document says, a hold does not hold: its answer is then that it comes later. */
static struct result put_in_force(struct request *request, struct pg *pg, const struct signed_body *body, struct error *err)
{
    struct document_change change;
    struct error late = {0};
    char recorder[PRINCIPAL_KEY_SIZE];
    unsigned status = 0;

    principal_key(request->principal, recorder);
    const struct document_row row = {request->pairs[0].action, body->document, body->envelopes, body->count, recorder};
    document_change_init(&change, &row, body->count > 1);
    TRY(request_record(request, &change.change, err));
    const uint64_t sequence = permit_sequence(request->permit);
    TRY(document_put_in_force(request, pg, DOCUMENT_LEGAL_HOLD, &status, err));
    if (!holds_follow(request->gateway, pg, &late).ok) status = 202;
    maintenance_wake(request->gateway->maintenance); /* gateway/background/erasures.h */
    return document_answer(request, status, body->document, sequence, err);
}

/* Of a later version, or a release: the first of two signatures. */
static struct result keep_draft(struct request *request, const struct signed_body *body, struct error *err)
{
    struct document_trust trust;

    TRY(check_persons(request, body, &trust, err));
    TRY(document_record_draft(request, body, ACTION_HOLD_ASK, err));
    return document_answer(request, 201, body->document, 0, err);
}

static struct result handle_add(struct request *request, struct pg *pg, struct error *err)
{
    const struct signed_body *body = NULL;
    struct document_trust trust;

    TRY(request_envelope(request, &body, err));
    TRY(check_document(request, pg, body->document, err));
    if (legal_hold_persons(body->document) > 1) return keep_draft(request, body, err);
    TRY(document_trust_now(request, &trust, err));
    TRY(document_check(body->document, &trust, err));
    TRY(document_check_approver(request, body->document, &trust, err));
    return put_in_force(request, pg, body, err);
}

static struct result handle_ask(struct request *request, struct pg *pg, struct error *err)
{
    const struct signed_body *body = NULL;

    TRY(request_envelope(request, &body, err));
    TRY(check_document(request, pg, body->document, err));
    return keep_draft(request, body, err);
}

static struct result handle_approve(struct request *request, struct pg *pg, struct error *err)
{
    const struct signed_body *body = NULL;
    struct document_trust trust;

    TRY(request_envelopes(request, &body, err));
    if (body->count < HOLD_PERSONS) return failure(err, ERROR_INVALID, "envelopes: that of the draft, and your own as the last");
    TRY(check_document(request, pg, body->document, err));
    TRY(check_persons(request, body, &trust, err));
    TRY(document_check(body->document, &trust, err));
    return put_in_force(request, pg, body, err);
}

static struct result handle_reject(struct request *request, struct pg *pg, struct error *err)
{
    (void)pg;
    return document_remove_drafts(request, DOCUMENT_LEGAL_HOLD, NULL, err);
}

/* ---- lists ---- */

SCHEMA(holds, "a page of legal holds", HAS_LIST("holds", REQUIRED, 1000, schema_erasure, "by name"),
       HAS_LIST("drafts", REQUIRED, 64, schema_erasure,
                "releases and later versions that wait for a second approver, on the first page"),
       HAS_NEXT)

static struct result append_draft(void *context, const struct drafted_document *drafted, struct error *err)
{
    return document_list_draft(context, drafted, HOLD_PERSONS, err);
}

static struct result add_drafts(struct request *request, struct pg *pg, json_t *list, struct error *err)
{
    const struct document_draft_query query = {ACTION_HOLD_READ, DOCUMENT_LEGAL_HOLD, "", NULL};
    struct document_drafts drafts = {.request = request, .list = list};

    TRY(document_trust_now(request, &drafts.trust, err));
    return document_draft_visit(request->permit, pg, &query, append_draft, &drafts, err);
}

static struct result handle_list(struct request *request, struct pg *pg, struct error *err)
{
    const struct document_scope registry = {"", 0};
    OWNED_JSON value = json_pack("{s:[], s:[]}", "holds", "drafts");
    struct api_page page;

    if (!api_page(request, &page)) return SUCCESS;
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    TRY(document_refresh(request, pg, err));
    const struct view_range range = {DOCUMENT_LEGAL_HOLD, &registry, page.after, page.limit + 1};
    TRY(document_view_visit(request->gateway->documents, &range, document_list_pinned, json_object_get(value, "holds"), err));
    if (page.after[0] == '\0') TRY(add_drafts(request, pg, json_object_get(value, "drafts"), err));
    return document_list_answer(request, value, "holds", page.limit, err);
}

static struct result handle_show(struct request *request, struct pg *pg, struct error *err)
{
    OWNED_JSON value = NULL;

    TRY(document_show(request, pg, ACTION_HOLD_READ, DOCUMENT_LEGAL_HOLD, &value, err));
    return document_answer_shown(request, value, true, err);
}

const struct handler handler_hold_add = {.handle = handle_add};
const struct handler handler_hold_ask = {.handle = handle_ask};
const struct handler handler_hold_approve = {.handle = handle_approve};
const struct handler handler_hold_reject = {.handle = handle_reject};
const struct handler handler_hold_list = {.handle = handle_list};
const struct handler handler_hold_show = {.handle = handle_show};
