/* The answer of GET /api/v1/keys/signing: docs/api.md. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "documents/prove.h"
#include "gateway/api/signing_key_priv.h"
#include "gateway/pipeline/schema.h"
#include "policy/decider.h"

PART(key_body, "a key and its owner",
     HAS_TEXT("principal", REQUIRED, FORM_FREE, 40, 68, "`robot:` and a UUID, or `ext:` and 64 hex digits"),
     HAS_TEXT("public_key", REQUIRED, FORM_FREE, 87, 87, "base64url of the uncompressed point"),
     HAS_WORD("purpose", REQUIRED, "approve sign", "what the key signs"))
PART(key_document, "the signed payload (docs/formats/documents.md)",
     HAS_WORD("schema", REQUIRED, "sijil.document/v1", "the form of the document"),
     HAS_WORD("kind", REQUIRED, "signing-key", "the kind of the document"),
     HAS_TEXT("scope", REQUIRED, FORM_FREE, 0, RESOURCE_NAME_MAX, "where the document is valid; empty: the registry"),
     HAS_TEXT("name", REQUIRED, FORM_FREE, 43, 43, "the key's RFC 7638 thumbprint"),
     HAS_NUMBER("version", REQUIRED, 1, 2, "1 enrols the key, 2 withdraws it"),
     HAS_SIGNED_TIME("effective_from", REQUIRED, "not in force before"),
     HAS_SIGNED_TIME("expires", REQUIRED, "not in force from then on"),
     HAS_TEXT("withdrawn", OPTIONAL, FORM_FREE, 1, 256, "why version 2 withdraws the key"),
     HAS_OBJECT("body", REQUIRED, schema_key_body, "the key"))
PART(draft_signature, "one signature", HAS_TEXT("sig", REQUIRED, FORM_FREE, 1, 0, "ECDSA P-256 in DER, in base64"),
     HAS_TEXT("keyid", OPTIONAL, FORM_FREE, 0, 127, "the RFC 7638 thumbprint of the key that made it; not signed"))
PART(draft_envelope, "one signature of the document, with the document (DSSE)",
     HAS_WORD("payloadType", REQUIRED, "application/vnd.sijil.signing-key.v1+json", "what the payload is"),
     HAS_TEXT("payload", REQUIRED, FORM_FREE, 1, 0, "the document in base64"),
     HAS_SOME("signatures", REQUIRED, 1, 8, schema_draft_signature, "of its signers"))
PART(draft_signer, "the principal that submitted a signature",
     HAS_TEXT("principal", REQUIRED, FORM_FREE, 1, 79, "as documents name it"),
     HAS_TEXT("person", OPTIONAL, FORM_FREE, 1, 79, "the person behind it; absent: nobody"))
SCHEMA(signing_key, "a signing key of a person",
       HAS_TEXT("name", REQUIRED, FORM_FREE, 43, 43, "the key's RFC 7638 thumbprint; names it in paths"),
       HAS_TEXT("state", REQUIRED, FORM_FREE, 1, 10, "draft, in force, to come, expired or withdrawn"),
       HAS_COUNT("event", OPTIONAL, "the number of its event; a draft has none"),
       HAS_OBJECT("envelope", OPTIONAL, schema_draft_envelope, "of a draft: the holder's signature"),
       HAS_LIST("envelopes", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_draft_envelope,
                "of a draft, and of one key: all signatures, the holder's first"),
       HAS_LIST("signed_by", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_draft_signer,
                "of a draft: who signed, in the order of the envelopes"),
       HAS_COUNT("missing", OPTIONAL, "of a draft: how many more signatures it needs"),
       HAS_OBJECT("document", REQUIRED, schema_key_document, "what is signed"))
SCHEMA(signing_keys, "a page of signing keys", HAS_LIST("keys", REQUIRED, 1000, schema_signing_key, "by name"),
       HAS_LIST("drafts", REQUIRED, 64, schema_signing_key, "keys that wait for an approval, on the first page"), HAS_NEXT)
SCHEMA(signing_key_approval, "all signatures of a draft",
       HAS_SOME("envelopes", REQUIRED, 1, DOCUMENT_SIGNATURES_MAX, schema_draft_envelope,
                "the draft's, then the approver's, of the same payload"))

static const char *state_of(const struct document *document, uint64_t sequence, int64_t now_ms)
{
    if (sequence == 0) return "draft";
    if (document->is_withdrawn || document->is_withdrawn_elsewhere) return "withdrawn";
    if (document->expires_ms != 0 && document->expires_ms <= now_ms) return "expired";
    return document->effective_ms > now_ms ? "to come" : "in force";
}

struct result signing_key_describe(const struct document *document, uint64_t sequence, json_t **value_out, struct error *err)
{
    OWNED_JSON whole = json_deep_copy(document->json);
    OWNED_JSON value = json_pack("{s:s, s:s, s:O}", "name", document->name, "state",
                                 state_of(document, sequence, clock_wall_ms()), "document", whole);

    if (value == NULL || (sequence != 0 && json_object_set_new(value, "event", json_integer((json_int_t)sequence)) != 0))
        return failure(err, ERROR_NO_MEMORY, "no memory for a signing key");
    *value_out = GIVE(value);
    return SUCCESS;
}

struct result signing_key_refresh(const struct request *request, struct pg *pg, struct error *err)
{
    const struct gateway *gateway = request->gateway;
    const struct document_source source = {pg, gateway->keyd, gateway->sequencer};

    return document_view_refresh(gateway->documents, &source, err);
}

struct result signing_key_trust(const struct request *request, struct document_trust *trust_out, struct error *err)
{
    struct keyd_documents pinned;

    TRY(keyd_ask_documents(request->gateway->keyd, &pinned, err));
    *trust_out = (struct document_trust){.now_ms = clock_wall_ms()};
    memcpy(trust_out->root, pinned.root, sizeof trust_out->root);
    memcpy(trust_out->approvers, pinned.approvers, sizeof trust_out->approvers);
    return SUCCESS;
}

static struct result append(json_t *list, const struct document *document, uint64_t sequence, struct error *err)
{
    json_t *value = NULL;

    TRY(signing_key_describe(document, sequence, &value, err));
    if (json_array_append_new(list, value) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a list");
}

static struct result append_key(void *context, const struct pinned_document *pinned, struct error *err)
{
    return append(context, pinned->document, pinned->sequence, err);
}

/* ---- drafts ---- */

/* Drafts are added to `list`. */
struct draft_list {
    const struct request *request;
    struct document_trust trust;
    json_t *list;
};

/* The signatures of one draft that count. The row could name other signers, and have envelopes that nobody has signed. */
struct draft_signatures {
    json_t *envelopes, *signers;
};

static struct result note_owner(void *context, const struct pinned_document *pinned, struct error *err)
{
    return signing_key_read(pinned->document, context, err);
}

/* An approver's key has the scope of the registry. `key_out` stays as it is if the key is not known. */
static struct result find_owner(const struct request *request, const uint8_t point[ECDSA_PUBLIC_SIZE],
                                struct signing_key *key_out, struct error *err)
{
    const struct document_scope registry = {"", 0};
    char name[ECDSA_THUMBPRINT_SIZE];
    struct error none = {0};

    ecdsa_thumbprint(point, name);
    const struct view_range one = {DOCUMENT_SIGNING_KEY, &registry, name, 1};
    if (document_view_find(request->gateway->documents, &one, note_owner, key_out, &none).ok || none.kind == ERROR_NOT_FOUND)
        return SUCCESS;
    return failure(err, none.kind, "%s", none.message);
}

/* "": no key that counts has signed. */
static struct result find_signer(const struct draft_list *drafts, const struct document *envelope,
                                 const struct signing_key *holder, struct signing_key *signer_out, struct error *err)
{
    const struct document_trust *trust = &drafts->trust;
    bool is_signed = false;

    *signer_out = *holder;
    TRY(document_is_signed_by(envelope, holder->point, &is_signed, err));
    if (is_signed) return SUCCESS;
    *signer_out = (struct signing_key){.principal = "root"};
    TRY(document_is_signed_by(envelope, trust->root, &is_signed, err));
    for (size_t i = 0; i < DOCUMENT_APPROVERS_MAX && !is_signed; i++) {
        signer_out->principal[0] = '\0';
        if (!document_approver_counts(&trust->approvers[i], trust->now_ms)) continue;
        TRY(document_is_signed_by(envelope, trust->approvers[i].point, &is_signed, err));
        if (is_signed) TRY(find_owner(drafts->request, trust->approvers[i].point, signer_out, err));
    }
    return SUCCESS;
}

static bool has_signed(const json_t *signers, const char *principal)
{
    const json_t *signer;
    size_t i;

    json_array_foreach (signers, i, signer)
        if (strcmp(json_text_of(signer, "principal"), principal) == 0) return true;
    return false;
}

static struct result add_signature(const struct draft_list *drafts, struct draft_signatures *signatures, const char *principal,
                                   struct bytes envelope, struct error *err)
{
    const struct person person = decider_person_of_key(drafts->request->gateway->decider, principal);
    json_t *whole = NULL;

    if (principal[0] == '\0' || has_signed(signatures->signers, principal)) return SUCCESS;
    json_t *signer = json_pack("{s:s, s:s*}", "principal", principal, "person", person_is_known(&person) ? person.key : NULL);
    if (json_array_append_new(signatures->signers, signer) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for a draft");
    TRY(json_read(envelope, envelope.length, &whole, err));
    if (json_array_append_new(signatures->envelopes, whole) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a draft");
}

static struct result gather_signatures(const struct draft_list *drafts, const struct drafted_document *drafted,
                                       const struct signing_key *holder, struct draft_signatures *signatures, struct error *err)
{
    for (size_t i = 0; i < drafted->document->signature_count; i++) {
        OWNED(document) *envelope = NULL;
        struct signing_key signer;
        TRY(document_read(&drafted->envelopes[i], 1, &envelope, err));
        TRY(find_signer(drafts, envelope, holder, &signer, err));
        TRY(add_signature(drafts, signatures, signer.principal, drafted->envelopes[i], err));
    }
    return SUCCESS;
}

static struct result add_signatures(const struct draft_list *drafts, json_t *value, const struct drafted_document *drafted,
                                    const struct signing_key *holder, struct error *err)
{
    const unsigned needed = document_signers_needed(drafted->document);
    OWNED_JSON envelopes = json_array();
    OWNED_JSON signers = json_array();
    struct draft_signatures signatures = {envelopes, signers};

    if (envelopes == NULL || signers == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a draft");
    TRY(gather_signatures(drafts, drafted, holder, &signatures, err));
    const size_t count = json_array_size(signers);
    json_t *missing = json_integer(count < needed ? (json_int_t)(needed - count) : 0);
    if (json_object_set(value, "envelope", json_array_get(envelopes, 0)) == 0 &&
        json_object_set(value, "envelopes", envelopes) == 0 && json_object_set(value, "signed_by", signers) == 0 &&
        json_object_set_new(value, "missing", missing) == 0)
        return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a draft");
}

/* A row without the holder's signature is not a draft, because others may have written it into the table; it is left out. */
static struct result append_draft(void *context, const struct drafted_document *drafted, struct error *err)
{
    const struct draft_list *drafts = context;
    struct error refused = {0};
    struct signing_key key;

    if (!signing_key_check_holder(drafted->document, clock_wall_ms(), &key, &refused).ok)
        return refused.kind == ERROR_NO_MEMORY ? failure(err, ERROR_NO_MEMORY, "%s", refused.message) : SUCCESS;
    TRY(append(drafts->list, drafted->document, 0, err));
    json_t *value = json_array_get(drafts->list, json_array_size(drafts->list) - 1);
    return add_signatures(drafts, value, drafted, &key, err);
}

/* ---- one key ---- */

/* A document in force: its description, and the event that brought it into force. */
struct shown_key {
    json_t *value;
    uint64_t sequence;
};

static struct result note_shown(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct shown_key *shown = context;

    shown->sequence = pinned->sequence;
    return signing_key_describe(pinned->document, pinned->sequence, &shown->value, err);
}

static struct result add_envelopes(json_t *value, const struct document_proof *proof, struct error *err)
{
    OWNED_JSON list = json_array();

    for (size_t i = 0; i < proof->request.envelope_count; i++) {
        const struct bytes envelope = proof->request.envelopes[i];
        json_t *whole = NULL;
        TRY(json_read(envelope, envelope.length, &whole, err));
        if (json_array_append_new(list, whole) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for envelopes");
    }
    if (json_object_set(value, "envelopes", list) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for envelopes");
}

static struct result handle_show(struct request *request, struct pg *pg, struct error *err)
{
    const struct resource *where = permit_resource(request->permit, ACTION_KEY_READ);
    struct document_proof_query query = {ACTION_KEY_READ, where->name, DOCUMENT_SIGNING_KEY, 0};
    OWNED(document_proof) *proof = NULL;
    struct document_scope scope;
    struct shown_key shown = {0};

    TRY(signing_key_refresh(request, pg, err));
    TRY(document_scope_find(lookup_of(pg), where->name, &scope, err));
    const struct view_range one = {DOCUMENT_SIGNING_KEY, &scope, request->reference, 1};
    TRY(document_view_find(request->gateway->documents, &one, note_shown, &shown, err));
    OWNED_JSON value = shown.value;
    query.sequence = shown.sequence;
    TRY(document_envelopes(request->permit, pg, &query, &proof, err));
    TRY(add_envelopes(value, proof, err));
    response_json(request, 200, value);
    return SUCCESS;
}

static struct result answer(struct request *request, json_t *keys, json_t *drafts, unsigned limit, struct error *err)
{
    const bool has_more = json_array_size(keys) > limit;

    if (has_more) (void)json_array_remove(keys, limit);
    OWNED_JSON value = json_pack("{s:O, s:O}", "keys", keys, "drafts", drafts);
    json_t *next = json_object_get(json_array_get(keys, limit - 1), "name");
    if (value == NULL || (has_more && json_object_set(value, "next", next) != 0))
        return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    response_json(request, 200, value);
    return has_more ? api_link_next(request, json_string_value(next), err) : SUCCESS;
}

static struct result handle(struct request *request, struct pg *pg, struct error *err)
{
    const struct resource *where = permit_resource(request->permit, ACTION_KEY_READ);
    const struct document_draft_query place = {ACTION_KEY_READ, DOCUMENT_SIGNING_KEY, where->name, NULL};
    OWNED_JSON keys = json_array();
    OWNED_JSON drafts = json_array();
    struct document_scope scope;
    struct api_page page;

    if (!api_page(request, &page)) return SUCCESS;
    TRY(signing_key_refresh(request, pg, err));
    TRY(document_scope_find(lookup_of(pg), where->name, &scope, err));
    const struct view_range range = {DOCUMENT_SIGNING_KEY, &scope, page.after, page.limit + 1};
    if (keys == NULL || drafts == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    TRY(document_view_visit(request->gateway->documents, &range, append_key, keys, err));
    struct draft_list list = {.request = request, .list = drafts};
    TRY(signing_key_trust(request, &list.trust, err));
    if (page.after[0] == '\0') TRY(document_draft_visit(request->permit, pg, &place, append_draft, &list, err));
    return answer(request, keys, drafts, page.limit, err);
}

const struct handler handler_key_read = {.handle = handle};
const struct handler handler_key_show = {.handle = handle_show};
