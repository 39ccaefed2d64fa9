/* GET /api/v1/erasures: erasures, with how far each one is, and drafts; docs/erasure.md. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "gateway/api/erasure_priv.h"

PART(
    erasure_document, "the signed payload (docs/formats/documents.md)",
    HAS_WORD("schema", REQUIRED, "sijil.document/v1", "the form of the document"),
    HAS_WORD("kind", REQUIRED, "erasure legal-hold", "the kind of the document"),
    HAS_TEXT("scope", REQUIRED, FORM_FREE, 0, 0, "empty: the registry"),
    HAS_TEXT("name", REQUIRED, FORM_FREE, 1, 128, "of an erasure the pseudonym of the person; of a hold its name"),
    HAS_NUMBER("version", REQUIRED, 1, INT64_MAX, "the highest one counts"),
    HAS_SIGNED_TIME("effective_from", REQUIRED, "not in force before"),
    HAS_SIGNED_TIME("expires", REQUIRED, "not in force from then on"),
    HAS_TEXT("withdrawn", OPTIONAL, FORM_FREE, 1, 256, "why this version releases the hold"),
    HAS_ANY(
        "body", REQUIRED,
        "an object: reason; of a hold also subject, a pseudonym or * for all, or content and perhaps digest; of a release empty"))
PART(erasure_signature, "one signature", HAS_TEXT("sig", REQUIRED, FORM_FREE, 1, 0, "ECDSA P-256 in DER, in base64"),
     HAS_TEXT("keyid", OPTIONAL, FORM_FREE, 0, 127, "the RFC 7638 thumbprint of the key that made it; not signed"))
SCHEMA(erasure_envelope, "one signature of an erasure or a hold, with the document (DSSE)",
       HAS_WORD("payloadType", REQUIRED, "application/vnd.sijil.erasure.v1+json application/vnd.sijil.legal-hold.v1+json",
                "what the payload is"),
       HAS_TEXT("payload", REQUIRED, FORM_FREE, 1, 0, "the document in base64"),
       HAS_SOME("signatures", REQUIRED, 1, 8, schema_erasure_signature, "of its signer"))
PART(erasure_signer, "the principal that brought a signature",
     HAS_TEXT("principal", REQUIRED, FORM_FREE, 1, 79, "as documents name it, or root"),
     HAS_TEXT("person", OPTIONAL, FORM_FREE, 1, 79, "the person behind it; absent: nobody"))
PART(erasure_work, "how far an erasure is",
     HAS_WORD("state", REQUIRED, "waits held begun done", "held: a legal hold stops it; begun: the key is destroyed"),
     HAS_COUNT("begun", OPTIONAL, "number of the event subject.erase"),
     HAS_COUNT("ended", OPTIONAL, "number of the event behind it, when all is done"),
     HAS_COUNT("payloads", OPTIONAL, "sealed parts that were deleted"),
     HAS_TIME("erased", OPTIONAL, "when the key was destroyed"))
SCHEMA(erasure, "an erasure or a hold", HAS_TEXT("name", REQUIRED, FORM_FREE, 1, 128, "names it in paths"),
       HAS_TEXT("state", REQUIRED, FORM_FREE, 1, 10, "draft, in force, to come, expired or withdrawn"),
       HAS_COUNT("event", OPTIONAL, "the number of its event; a draft has none"),
       HAS_OBJECT("work", OPTIONAL, schema_erasure_work, "of an erasure that is in force, or was"),
       HAS_OBJECT("envelope", OPTIONAL, schema_erasure_envelope, "of a draft: the first signature"),
       HAS_LIST("envelopes", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_erasure_envelope,
                "of a draft, and of one document: all signatures"),
       HAS_LIST("signed_by", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_erasure_signer, "of a draft: who signed"),
       HAS_COUNT("missing", OPTIONAL, "of a draft: so many more signatures it needs"),
       HAS_OBJECT("document", REQUIRED, schema_erasure_document, "what is signed"))
SCHEMA(erasures, "a page of erasures", HAS_LIST("erasures", REQUIRED, 1000, schema_erasure, "by pseudonym"),
       HAS_LIST("drafts", REQUIRED, 64, schema_erasure, "erasures that wait for a second person, on the first page"), HAS_NEXT)
SCHEMA(erasure_approval, "all signatures of a draft",
       HAS_SOME("envelopes", REQUIRED, 1, DOCUMENT_SIGNATURES_MAX, schema_erasure_envelope,
                "the draft's, then the second person's, of the same payload"))

/* ---- what routes of documents share ---- */

struct result erasure_target_named(struct request *request, enum action action)
{
    const size_t length = strlen(request->reference);
    struct resource *resource = api_pair(request, action, RESOURCE_SYSTEM, "");

    if (length == 0 || length >= DOCUMENT_NAME_SIZE) response_unknown(request);
    else (void)snprintf(resource->detail, sizeof resource->detail, "%s", request->reference);
    return SUCCESS;
}

/* ---- targets ---- */

struct result target_erasure_list(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    (void)api_pair(request, ACTION_ERASURE_READ, RESOURCE_SYSTEM, "");
    return SUCCESS;
}

struct result target_erasure_show(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return erasure_target_named(request, ACTION_ERASURE_READ);
}

/* ---- how far an erasure is ---- */

static struct result set_work(json_t *value, const struct erasure_row *row, struct error *err)
{
    OWNED_JSON work = json_pack("{s:s, s:I, s:I}", "state", row->ended == 0 ? "begun" : "done", "begun", (json_int_t)row->begun,
                                "payloads", (json_int_t)row->payloads);

    if (work == NULL || !api_set_time(work, "erased", row->erased_ms) ||
        (row->ended != 0 && json_object_set_new(work, "ended", json_integer((json_int_t)row->ended)) != 0) ||
        json_object_set(value, "work", work) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for an erasure");
    return SUCCESS;
}

static struct result set_waiting(struct request *request, json_t *value, const char *pseudonym, struct error *err)
{
    OWNED_JSON names = json_array();

    if (names == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an erasure");
    TRY(holds_of(request, pseudonym, names, err));
    OWNED_JSON work = json_pack("{s:s}", "state", json_array_size(names) == 0 ? "waits" : "held");
    if (json_object_set(value, "work", work) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for an erasure");
}

static struct result add_work(struct request *request, struct pg *pg, json_t *value, struct error *err)
{
    const char *pseudonym = json_text_of(value, "name");
    struct erasure_row row;
    struct error none = {0};

    if (erasure_row_find(request->permit, ACTION_ERASURE_READ, pg, pseudonym, &row, &none).ok) return set_work(value, &row, err);
    if (none.kind != ERROR_NOT_FOUND) return failure(err, none.kind, "%s", none.message);
    return set_waiting(request, value, pseudonym, err);
}

/* ---- the list ---- */

static struct result append_draft(void *context, const struct drafted_document *drafted, struct error *err)
{
    struct error refused = {0};
    const char *reason = NULL;

    if (!erasure_read(drafted->document, &reason, &refused).ok)
        return refused.kind == ERROR_NO_MEMORY ? failure(err, ERROR_NO_MEMORY, "%s", refused.message) : SUCCESS;
    return document_list_draft(context, drafted, ERASURE_PERSONS, err);
}

static struct result add_drafts(struct request *request, struct pg *pg, json_t *list, struct error *err)
{
    const struct document_draft_query query = {ACTION_ERASURE_READ, DOCUMENT_ERASURE, "", NULL};
    struct document_drafts drafts = {.request = request, .list = list};

    TRY(document_trust_now(request, &drafts.trust, err));
    return document_draft_visit(request->permit, pg, &query, append_draft, &drafts, err);
}

static struct result handle_list(struct request *request, struct pg *pg, struct error *err)
{
    const struct document_scope registry = {"", 0};
    OWNED_JSON value = json_pack("{s:[], s:[]}", "erasures", "drafts");
    struct api_page page;
    json_t *each;
    size_t i;

    if (!api_page(request, &page)) return SUCCESS;
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    TRY(document_refresh(request, pg, err));
    json_t *list = json_object_get(value, "erasures");
    const struct view_range range = {DOCUMENT_ERASURE, &registry, page.after, page.limit + 1};
    TRY(document_view_visit(request->gateway->documents, &range, document_list_pinned, list, err));
    json_array_foreach (list, i, each) TRY(add_work(request, pg, each, err));
    if (page.after[0] == '\0') TRY(add_drafts(request, pg, json_object_get(value, "drafts"), err));
    return document_list_answer(request, value, "erasures", page.limit, err);
}

static struct result handle_show(struct request *request, struct pg *pg, struct error *err)
{
    OWNED_JSON value = NULL;

    TRY(document_show(request, pg, ACTION_ERASURE_READ, DOCUMENT_ERASURE, &value, err));
    TRY(add_work(request, pg, value, err));
    response_json(request, 200, value);
    return SUCCESS;
}

const struct handler handler_erasure_list = {.handle = handle_list};
const struct handler handler_erasure_show = {.handle = handle_show};
