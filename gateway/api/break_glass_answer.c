/* Broken glasses in answers: lists, with their reviews; and what a credential itself holds. */
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "documents/prove.h"
#include "gateway/api/break_glass_priv.h"
#include "gateway/api/self_priv.h"

PART(glass_body, "who may pull where, and why",
     HAS_TEXT("principal", REQUIRED, FORM_FREE, BREAK_GLASS_PRINCIPAL, BREAK_GLASS_PRINCIPAL,
              "the holder: `ext:` and 64 hex digits"),
     HAS_TEXT("public_key", REQUIRED, FORM_FREE, 87, 87, "the holder's enrolled key: base64url of the uncompressed point"),
     HAS_TEXT("on", OPTIONAL, FORM_FREE, 1, BREAK_GLASS_PLACE_MAX, "an organisation or a project; left out in version 2"),
     HAS_TEXT("reason", OPTIONAL, FORM_FREE, 1, BREAK_GLASS_REASON_MAX, "why; left out in version 2"),
     HAS_TEXT("approved_by", OPTIONAL, FORM_FREE, BREAK_GLASS_PRINCIPAL, BREAK_GLASS_PRINCIPAL,
              "of version 2: who approved version 1"))
PART(glass_document, "the signed payload (docs/formats/documents.md)",
     HAS_WORD("schema", REQUIRED, "sijil.document/v1", "the form of the document"),
     HAS_WORD("kind", REQUIRED, "break-glass", "the kind of the document"),
     HAS_TEXT("scope", REQUIRED, FORM_FREE, 0, 0, "empty: the registry"),
     HAS_TEXT("name", REQUIRED, FORM_FREE, 1, BREAK_GLASS_NAME_MAX, "its name"),
     HAS_NUMBER("version", REQUIRED, 1, 2, "1 breaks the glass, 2 ends that"),
     HAS_SIGNED_TIME("effective_from", REQUIRED, "not in force before"),
     HAS_SIGNED_TIME("expires", REQUIRED, "not in force from then on"),
     HAS_TEXT("withdrawn", OPTIONAL, FORM_FREE, 1, 256, "of version 2: why it ends"),
     HAS_OBJECT("body", REQUIRED, schema_glass_body, "what is signed"))
PART(glass_signature, "one signature", HAS_TEXT("sig", REQUIRED, FORM_FREE, 1, 0, "ECDSA P-256 in DER, in base64"),
     HAS_TEXT("keyid", OPTIONAL, FORM_FREE, 0, 127, "the RFC 7638 thumbprint of the key that made it; not signed"))
PART(glass_envelope, "one signature of a broken glass, with it (DSSE)",
     HAS_WORD("payloadType", REQUIRED, "application/vnd.sijil.break-glass.v1+json", "what the payload is"),
     HAS_TEXT("payload", REQUIRED, FORM_FREE, 1, 0, "the document in base64"),
     HAS_SOME("signatures", REQUIRED, 1, 8, schema_glass_signature, "of its signer"))
PART(glass_signer, "the principal that brought a signature",
     HAS_TEXT("principal", REQUIRED, FORM_FREE, 1, 79, "as documents name it"),
     HAS_TEXT("person", OPTIONAL, FORM_FREE, 1, 79, "the person behind it; absent: nobody"))
PART(glass_holder, "the subject of an issuer that the document names by a hash",
     HAS_TEXT("issuer", REQUIRED, FORM_FREE, 1, 255, "its URL"),
     HAS_TEXT("subject", REQUIRED, FORM_FREE, 1, 255, "as tokens name it"))
SCHEMA(glass, "a broken glass", HAS_TEXT("name", REQUIRED, FORM_FREE, 1, BREAK_GLASS_NAME_MAX, "its name"),
       HAS_TEXT("state", REQUIRED, FORM_FREE, 1, 10, "draft, in force, to come, expired or withdrawn"),
       HAS_COUNT("event", OPTIONAL, "the number of its event; a draft has none"),
       HAS_OBJECT("envelope", OPTIONAL, schema_glass_envelope, "of a draft: the holder's signature"),
       HAS_LIST("envelopes", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_glass_envelope,
                "of a draft, and of one document: all signatures"),
       HAS_LIST("signed_by", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_glass_signer, "of a draft: who signed"),
       HAS_COUNT("missing", OPTIONAL, "of a draft: so many more signatures it needs"),
       HAS_OBJECT("holder", OPTIONAL, schema_glass_holder,
                  "in lists, for callers that may approve it, during the hour: who it is"),
       HAS_TEXT("approved_by", OPTIONAL, FORM_FREE, 1, 79, "the principal that approved it"),
       HAS_TEXT("on", OPTIONAL, FORM_FREE, 1, BREAK_GLASS_PLACE_MAX, "of version 2: where version 1 broke it"),
       HAS_TEXT("reason", OPTIONAL, FORM_FREE, 1, BREAK_GLASS_REASON_MAX, "of version 2: why"),
       HAS_COUNT("broken_event", OPTIONAL, "of version 2: the number of the event of version 1"),
       HAS_WORD("review", OPTIONAL, "later open justified not-justified",
                "later: it is in force; open: nobody has reviewed it yet"),
       HAS_TEXT("note", OPTIONAL, FORM_FREE, 1, BREAK_GLASS_REASON_MAX, "what the reviewer says"),
       HAS_COUNT("review_event", OPTIONAL, "the number of the event of the review"),
       HAS_OBJECT("document", REQUIRED, schema_glass_document, "what is signed"))
SCHEMA(glasses, "a page of broken glasses", HAS_LIST("glasses", REQUIRED, 1000, schema_glass, "by name"),
       HAS_LIST("drafts", REQUIRED, 64, schema_glass, "those that wait for an approver, on the first page"), HAS_NEXT)
SCHEMA(glass_approval, "both signatures of a draft",
       HAS_SOME("envelopes", REQUIRED, 2, 2, schema_glass_envelope, "the holder's, then the approver's, of the same payload"))
PART(review_body, "what a third person found", HAS_WORD("finding", REQUIRED, "justified not-justified", "whether it was"),
     HAS_TEXT("note", REQUIRED, FORM_FREE, 1, BREAK_GLASS_REASON_MAX, "why"))
PART(review_document, "the signed payload (docs/formats/documents.md)",
     HAS_WORD("schema", REQUIRED, "sijil.document/v1", "the form of the document"),
     HAS_WORD("kind", REQUIRED, "break-glass-review", "the kind of the document"),
     HAS_TEXT("scope", REQUIRED, FORM_FREE, 0, 0, "empty: the registry"),
     HAS_TEXT("name", REQUIRED, FORM_FREE, 1, BREAK_GLASS_NAME_MAX, "of the broken glass"),
     HAS_NUMBER("version", REQUIRED, 1, 1, "a glass is reviewed once"),
     HAS_SIGNED_TIME("effective_from", REQUIRED, "when it was signed"),
     HAS_SIGNED_TIME("expires", REQUIRED, "when it can be recorded no more"),
     HAS_OBJECT("body", REQUIRED, schema_review_body, "the finding"))
SCHEMA(glass_review, "a review", HAS_TEXT("name", REQUIRED, FORM_FREE, 1, BREAK_GLASS_NAME_MAX, "of the broken glass"),
       HAS_TEXT("state", REQUIRED, FORM_FREE, 1, 10, "in force"), HAS_COUNT("event", OPTIONAL, "the number of its event"),
       HAS_OBJECT("document", REQUIRED, schema_review_document, "what is signed"))

/* ---- reviews ---- */

static struct result note_review(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct break_glass_review review;

    TRY(break_glass_review_read(pinned->document, &review, err));
    OWNED_JSON value =
        json_pack("{s:s, s:s, s:I}", "review", review.finding, "note", review.note, "review_event", (json_int_t)pinned->sequence);
    if (value != NULL && json_object_update(context, value) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a review");
}

/* Adds who approved it, and what came of it. */
static struct result add_state(const struct request *request, const char *name, json_t *value, struct error *err)
{
    static const struct document_scope registry = {"", 0};
    const struct view_range one = {DOCUMENT_BREAK_GLASS_REVIEW, &registry, name, 1};
    struct known_glass known;
    struct error none = {0};

    TRY(break_glass_find(request, name, &known, err));
    OWNED_JSON state = json_pack("{s:s*, s:s}", "approved_by", known.approved_by[0] == '\0' ? NULL : known.approved_by, "review",
                                 known.is_in_force ? "later" : "open");
    if (state == NULL || json_object_update(value, state) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for a broken glass");
    if (document_view_find(request->gateway->documents, &one, note_review, value, &none).ok || none.kind == ERROR_NOT_FOUND)
        return SUCCESS;
    return failure(err, none.kind, "%s", none.message);
}

/* A document that ends it does not say where it was broken, and why. The reviewer judges by that, so it comes from version 1. */
static struct result add_broken(struct request *request, struct pg *pg, json_t *value, struct error *err)
{
    struct document_proof_query query = {.action = ACTION_BREAK_GLASS_READ, .scope = "", .kind = DOCUMENT_BREAK_GLASS};
    struct document_history history;
    OWNED(document_proof) *proof = NULL;
    OWNED(document) *document = NULL;
    struct break_glass glass;

    TRY(document_view_history(request->gateway->documents, query.kind, json_text_of(value, "name"), &history, err));
    if (history.count < 2) return SUCCESS;
    query.sequence = history.sequences[0];
    TRY(document_envelopes(request->permit, pg, &query, &proof, err));
    TRY(document_read(proof->request.envelopes, proof->request.envelope_count, &document, err));
    TRY(break_glass_read(document, &glass, err));
    OWNED_JSON broken =
        json_pack("{s:s*, s:s*, s:I}", "on", glass.on, "reason", glass.reason, "broken_event", (json_int_t)query.sequence);
    if (broken != NULL && json_object_update(value, broken) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a broken glass");
}

static struct result add_to_row(struct request *request, struct pg *pg, json_t *value, struct error *err)
{
    const json_t *body = json_object_get(json_object_get(value, "document"), "body");

    if (json_object_get(body, "on") == NULL) TRY(add_broken(request, pg, value, err));
    return add_state(request, json_text_of(value, "name"), value, err);
}

/* A draft without the signature of its holder is none: another program may have written the row. */
static struct result list_draft(const struct document_drafts *drafts, const struct drafted_document *drafted, struct error *err)
{
    struct break_glass glass;
    struct error refused = {0};
    json_t *value = NULL;

    if (!break_glass_check_holder(drafted->document, clock_wall_ms(), &glass, &refused).ok)
        return refused.kind == ERROR_NO_MEMORY ? failure(err, ERROR_NO_MEMORY, "%s", refused.message) : SUCCESS;
    const struct document_holder holder = {glass.point, glass.principal, document_signers_needed(drafted->document)};
    TRY(document_describe(drafted->document, 0, &value, err));
    TRY(document_list_add(drafts->list, value, err));
    return document_add_signatures(drafts, value, drafted, &holder, err);
}

/* ---- holders ---- */

static struct result note_holder(void *context, const char *principal, const char *issuer, const char *subject, struct error *err)
{
    if (json_object_set_new(context, principal, json_pack("{s:s, s:s}", "issuer", issuer, "subject", subject)) == 0)
        return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for holders");
}

static struct result name_rows(const json_t *list, const json_t *holders, struct error *err)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *row = json_array_get(list, i);
        const char *principal = json_text_of(json_object_get(json_object_get(row, "document"), "body"), "principal");
        json_t *holder = principal == NULL ? NULL : json_object_get(holders, principal);
        if (holder != NULL && json_object_set(row, "holder", holder) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for holders");
    }
    return SUCCESS;
}

/* Approvers must know whom they approve. */
static struct result name_holders(struct request *request, struct pg *pg, json_t *value, struct error *err)
{
    const struct action_pair pair = {ACTION_BREAK_GLASS_APPROVE, *permit_resource(request->permit, ACTION_BREAK_GLASS_READ)};
    OWNED_JSON holders = json_object();
    const struct glass_holders visit = {note_holder, holders};
    bool may = false;

    if (holders == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for holders");
    TRY(api_may(request, &pair, &may, err));
    if (!may) return SUCCESS;
    TRY(glass_holders_visit(request->permit, pg, &visit, err));
    TRY(name_rows(json_object_get(value, "drafts"), holders, err));
    return name_rows(json_object_get(value, "glasses"), holders, err);
}

const struct log_documents log_glasses = {.kind = DOCUMENT_BREAK_GLASS,
                                          .draft = ACTION_BREAK_GLASS_ASK,
                                          .approve = ACTION_BREAK_GLASS_APPROVE,
                                          .revoke = ACTION_BREAK_GLASS_END,
                                          .reject = ACTION_BREAK_GLASS_REJECT,
                                          .read = ACTION_BREAK_GLASS_READ,
                                          .list = "glasses",
                                          .what = "broken glass",
                                          .most = GLASS_ENTRIES_MAX,
                                          .gives_roles = true,
                                          .finish = name_holders,
                                          .list_draft = list_draft,
                                          .add = add_to_row};

/* A review has one signature and no draft. */
const struct log_documents log_glass_reviews = {.kind = DOCUMENT_BREAK_GLASS_REVIEW,
                                                .draft = ACTION_BREAK_GLASS_REVIEW,
                                                .approve = ACTION_BREAK_GLASS_REVIEW,
                                                .revoke = ACTION_BREAK_GLASS_REVIEW,
                                                .reject = ACTION_BREAK_GLASS_REVIEW,
                                                .read = ACTION_BREAK_GLASS_REVIEW,
                                                .list = "reviews",
                                                .what = "review of a broken glass"};

/* ---- of the caller itself ---- */

struct own {
    char principal[PRINCIPAL_KEY_SIZE];
    json_t *list;
};

/* What was reviewed is over. */
static struct result note_own(void *context, const struct broken_glass *glass, struct error *err)
{
    struct own *own = context;
    struct break_glass read;

    if (glass->is_reviewed) return SUCCESS;
    TRY(break_glass_read(glass->document, &read, err));
    if (strcmp(read.principal, own->principal) != 0) return SUCCESS;
    json_t *value = json_pack("{s:s, s:s*, s:O}", "name", glass->document->name, "on", read.on, "expires",
                              json_object_get(glass->document->json, "expires"));
    return document_list_add(own->list, value, err);
}

static struct result list_own(const struct request *request, struct own *own, struct error *err)
{
    TRY(broken_glass_visit(request->gateway->documents, clock_wall_ms(), note_own, own, err));
    for (size_t i = 0; i < json_array_size(own->list); i++) {
        json_t *one = json_array_get(own->list, i);
        TRY(add_state(request, json_text_of(one, "name"), one, err));
    }
    return SUCCESS;
}

/* While the documents are not known, the caller still learns who it is. */
struct result break_glass_add_own(const struct request *request, json_t *value, struct error *err)
{
    OWNED_JSON list = json_array();
    struct own own = {.list = list};
    struct error problem = {0};

    if (list == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    principal_key(request->principal, own.principal);
    if (!list_own(request, &own, &problem).ok) return self_cannot_tell(value, "break_glass", &problem, err);
    if (json_array_size(list) == 0 || json_object_set(value, "break_glass", list) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
}
