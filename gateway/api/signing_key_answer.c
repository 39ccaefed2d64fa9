/* The answer of GET /api/v1/keys/signing: docs/api.md. */
#include <stdio.h>
#include <string.h>

#include "authz/binding.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "documents/prove.h"
#include "gateway/api/signing_key_priv.h"
#include "gateway/pipeline/schema.h"
#include "policy/decider/decider.h"

PART(key_body, "a key and its owner",
     HAS_TEXT("principal", REQUIRED, FORM_FREE, 40, 68, "`robot:` and a UUID, or `ext:` and 64 hex digits"),
     HAS_TEXT("public_key", REQUIRED, FORM_FREE, 87, 87, "base64url of the uncompressed point"),
     HAS_WORD("purpose", REQUIRED, "approve sign", "what the key signs"),
     HAS_TEXT("replaces", OPTIONAL, FORM_FREE, 87, 87, "another key of the same person, which has signed, too"))
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
PART(key_holder, "the subject of an issuer that the document names by a hash",
     HAS_TEXT("issuer", REQUIRED, FORM_FREE, 1, 255, "its URL"),
     HAS_TEXT("subject", REQUIRED, FORM_FREE, 1, 255, "as tokens name it"))
SCHEMA(signing_key, "a signing key of a person",
       HAS_TEXT("name", REQUIRED, FORM_FREE, 43, 43, "the key's RFC 7638 thumbprint; names it in paths"),
       HAS_TEXT("state", REQUIRED, FORM_FREE, 1, 10, "draft, in force, to come, expired or withdrawn"),
       HAS_COUNT("event", OPTIONAL, "the number of its event; a draft has none"),
       HAS_OBJECT("envelope", OPTIONAL, schema_draft_envelope, "of a draft: the holder's signature"),
       HAS_LIST("envelopes", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_draft_envelope,
                "of a draft, and of one key: all signatures, the holder's first"),
       HAS_LIST("signed_by", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_draft_signer,
                "of a draft: who signed, in the order of the envelopes"),
       HAS_TIME("waits_until", OPTIONAL, "of another key of a person with power: approve it again then"),
       HAS_COUNT("missing", OPTIONAL, "of a draft: how many more signatures it needs"),
       HAS_OBJECT(
           "holder", OPTIONAL, schema_key_holder,
           "whose key it is, for callers that may approve it: if the subject has a role in the organisation, or on the registry"),
       HAS_OBJECT("document", REQUIRED, schema_key_document, "what is signed"))
SCHEMA(signing_keys, "a page of signing keys", HAS_LIST("keys", REQUIRED, 1000, schema_signing_key, "by name"),
       HAS_LIST("drafts", REQUIRED, 64, schema_signing_key, "keys that wait for an approval, on the first page"), HAS_NEXT)
SCHEMA(signing_key_approval, "all signatures of a draft",
       HAS_SOME("envelopes", REQUIRED, 1, DOCUMENT_SIGNATURES_MAX, schema_draft_envelope,
                "the draft's, then the approver's, of the same payload"))

/* ---- drafts ---- */

static struct result note_end(void *context, const struct pinned_document *pinned, struct error *err)
{
    bool *is_withdrawn = context;

    (void)err;
    *is_withdrawn = *is_withdrawn || pinned->document->is_withdrawn || pinned->document->is_withdrawn_elsewhere;
    return SUCCESS;
}

/*
 * A row without the holder's signature is not a draft, because others may have written it into the table; it is left out. So is one of a key that was withdrawn, in whichever scope: it can't be
 * approved any more.
 */
static struct result append_draft(void *context, const struct drafted_document *drafted, struct error *err)
{
    const struct document_drafts *drafts = context;
    struct error refused = {0};
    bool is_withdrawn = false;
    struct signing_key key;
    json_t *value = NULL;

    if (!signing_key_check_holder(drafted->document, clock_wall_ms(), &key, &refused).ok)
        return refused.kind == ERROR_NO_MEMORY ? failure(err, ERROR_NO_MEMORY, "%s", refused.message) : SUCCESS;
    TRY(document_view_visit_name(drafts->request->gateway->documents, DOCUMENT_SIGNING_KEY, drafted->document->name, note_end,
                                 &is_withdrawn, err));
    if (is_withdrawn) return SUCCESS;
    TRY(document_describe(drafted->document, 0, &value, err));
    TRY(document_list_add(drafts->list, value, err));
    const bool is_of_several = key.purpose == SIGNING_APPROVE && !document_root_is_one(&drafts->trust);
    const unsigned needed = is_of_several ? 1U + drafts->trust.terms.officers : document_signers_needed(drafted->document);
    const struct document_holder holder = {key.point, key.principal, needed};
    return document_add_signatures(drafts, value, drafted, &holder, err);
}

/* ---- holders ---- */

#define HOLDERS_MAX (API_LIMIT_MAX + 1 + 64) /* keys of a page, and drafts */

/* Approvers must know whose key they sign. Other callers may not know who has roles here. */
static struct result may_know_holders(const struct request *request, bool *may_out, struct error *err)
{
    const struct action_pair pair = {ACTION_KEY_APPROVE, *permit_resource(request->permit, ACTION_KEY_READ)};

    return api_may(request, &pair, may_out, err);
}

static const char *principal_of(const json_t *key)
{
    return json_text_of(json_object_get(json_object_get(key, "document"), "body"), "principal");
}

static struct result note_holder(void *context, struct bytes digest, const char *issuer, const char *subject, struct error *err)
{
    char principal[PRINCIPAL_KEY_SIZE] = "ext:";

    text_hex(digest.data, digest.length, principal + strlen("ext:"));
    if (json_object_set_new(context, principal, json_pack("{s:s, s:s}", "issuer", issuer, "subject", subject)) == 0)
        return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for the holders of keys");
}

/* {principal: holder} of the keys in `list`, as far as they are subjects with a role. */
static struct result find_holders(const struct request *request, struct pg *pg, const json_t *list, json_t *holders,
                                  struct error *err)
{
    OWNED_STRING room = memory_zeroed(HOLDERS_MAX, SHA256_SIZE);
    OWNED_STRING views = memory_zeroed(HOLDERS_MAX, sizeof(struct bytes));
    struct bytes *digests = (void *)views;
    size_t count = 0;

    if (room == NULL || views == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the holders of keys");
    for (size_t i = 0; i < json_array_size(list) && count < HOLDERS_MAX; i++) {
        const char *principal = principal_of(json_array_get(list, i));
        uint8_t *digest = (uint8_t *)room + count * SHA256_SIZE;
        if (principal == NULL || strncmp(principal, "ext:", 4) != 0) continue;
        if (text_from_hex(bytes_of_text(principal + 4), digest, SHA256_SIZE))
            digests[count++] = (struct bytes){digest, SHA256_SIZE};
    }
    if (count == 0) return SUCCESS;
    const struct subject_query query = {digests, count, note_holder, holders, ACTION_KEY_READ};
    return binding_subjects(request->permit, pg, &query, err);
}

static struct result add_holders(const struct request *request, struct pg *pg, json_t *list, struct error *err)
{
    OWNED_JSON holders = json_object();
    bool may = false;

    if (holders == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the holders of keys");
    TRY(may_know_holders(request, &may, err));
    if (!may) return SUCCESS;
    TRY(find_holders(request, pg, list, holders, err));
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *key = json_array_get(list, i), *holder = NULL;
        const char *principal = principal_of(key);
        if (principal != NULL) holder = json_object_get(holders, principal);
        if (holder != NULL && json_object_set(key, "holder", holder) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for the holders of keys");
    }
    return SUCCESS;
}

/* ---- one key ---- */

static struct result handle_show(struct request *request, struct pg *pg, struct error *err)
{
    OWNED_JSON value = NULL;

    TRY(document_show(request, pg, ACTION_KEY_READ, DOCUMENT_SIGNING_KEY, &value, err));
    OWNED_JSON list = json_pack("[O]", value);
    TRY(add_holders(request, pg, list, err));
    response_json(request, 200, value);
    return SUCCESS;
}

static struct result handle(struct request *request, struct pg *pg, struct error *err)
{
    const struct resource *where = permit_resource(request->permit, ACTION_KEY_READ);
    const struct document_draft_query drafts_query = {ACTION_KEY_READ, DOCUMENT_SIGNING_KEY, where->name, NULL};
    OWNED_JSON keys = json_array();
    OWNED_JSON drafts = json_array();
    struct document_scope scope;
    struct api_page page;

    if (!api_page(request, &page)) return SUCCESS;
    TRY(document_refresh(request, pg, err));
    TRY(document_scope_find(lookup_of(pg), where->name, &scope, err));
    const struct view_range range = {DOCUMENT_SIGNING_KEY, &scope, page.after, page.limit + 1};
    if (keys == NULL || drafts == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    TRY(document_view_visit(request->gateway->documents, &range, document_list_pinned, keys, err));
    struct document_drafts list = {.request = request, .list = drafts};
    TRY(document_trust_now(request, &list.trust, err));
    if (page.after[0] == '\0') TRY(document_draft_visit(request->permit, pg, &drafts_query, append_draft, &list, err));
    TRY(add_holders(request, pg, keys, err));
    TRY(add_holders(request, pg, drafts, err));
    TRY(key_wait_add(request, drafts, err));
    OWNED_JSON value = json_pack("{s:O, s:O}", "keys", keys, "drafts", drafts);
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    return document_list_answer(request, value, "keys", page.limit, err);
}

const struct handler handler_key_read = {.handle = handle};
const struct handler handler_key_show = {.handle = handle_show};
