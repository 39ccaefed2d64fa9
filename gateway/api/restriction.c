/* /api/v1/restrictions: what an organisation's own officers forbid in it; docs/policies.md. */
#include <stdio.h>
#include <string.h>

#include "authz/trust_rule.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "documents/change.h"
#include "documents/restriction_officers.h"
#include "gateway/api/document_priv.h"
#include "policy/decider/decider.h"
#include "policy/restriction.h"

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789._-"

PART(restriction_body, "the policy; of a withdrawal nothing",
     HAS_ANY("policy", OPTIONAL, "a policy that only restricts, as in a policy set"),
     HAS_TEXT("plan", OPTIONAL, FORM_DIGEST, 71, 71, "the digest of the plan that its signers have seen"))
PART(restriction_document, "the signed payload (docs/formats/documents.md)",
     HAS_WORD("schema", REQUIRED, "sijil.document/v1", "the form of the document"),
     HAS_WORD("kind", REQUIRED, "restriction", "the kind of the document"),
     HAS_TEXT("scope", REQUIRED, FORM_FREE, 1, RESOURCE_NAME_MAX, "the organisation"),
     HAS_TEXT("name", REQUIRED, FORM_FREE, 1, RESTRICTION_NAME_MAX, "the id of the policy"),
     HAS_NUMBER("version", REQUIRED, 1, INT64_MAX, "the highest one counts"),
     HAS_SIGNED_TIME("effective_from", REQUIRED, "when it was signed"),
     HAS_TEXT("withdrawn", OPTIONAL, FORM_FREE, 1, 256, "why this version withdraws it"),
     HAS_OBJECT("body", REQUIRED, schema_restriction_body, "what it says"))
PART(restriction_signature, "one signature", HAS_TEXT("sig", REQUIRED, FORM_FREE, 1, 0, "ECDSA P-256 in DER, in base64"),
     HAS_TEXT("keyid", OPTIONAL, FORM_FREE, 0, 127, "the RFC 7638 thumbprint of the key that made it; not signed"))
SCHEMA(restriction_envelope, "one signature of a restriction, with it (DSSE)",
       HAS_WORD("payloadType", REQUIRED, "application/vnd.sijil.restriction.v1+json", "what the payload is"),
       HAS_TEXT("payload", REQUIRED, FORM_FREE, 1, 0, "the document in base64"),
       HAS_SOME("signatures", REQUIRED, 1, 8, schema_restriction_signature, "of its signer"))
SCHEMA(restriction, "a policy that an organisation has added for itself",
       HAS_TEXT("name", REQUIRED, FORM_FREE, 1, RESTRICTION_NAME_MAX, "the id of the policy"),
       HAS_TEXT("state", REQUIRED, FORM_FREE, 1, 10, "draft, in force, to come or withdrawn"),
       HAS_COUNT("event", OPTIONAL, "the number of its event; a draft has none"),
       HAS_OBJECT("envelope", OPTIONAL, schema_restriction_envelope, "of a draft: the first signature"),
       HAS_LIST("envelopes", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_restriction_envelope,
                "of a draft, and of one document: all signatures"),
       HAS_COUNT("missing", OPTIONAL, "of a draft: so many more officers of the organisation sign it"),
       HAS_OBJECT("document", REQUIRED, schema_restriction_document, "what is signed"))
SCHEMA(restrictions, "a page of restrictions of an organisation",
       HAS_LIST("restrictions", REQUIRED, 1000, schema_restriction, "by name"),
       HAS_LIST("drafts", REQUIRED, 64, schema_restriction, "those that wait for an officer, on the first page"), HAS_NEXT)
SCHEMA(restriction_approval, "all signatures of a draft",
       HAS_SOME("envelopes", REQUIRED, 1, DOCUMENT_SIGNATURES_MAX, schema_restriction_envelope,
                "the draft's, then the officer's, of the same payload"))

/* ---- targets ---- */

static struct resource *organisation_pair(struct request *request, enum action action, const char *scope)
{
    if (scope == NULL || scope[0] == '\0' || strchr(scope, '/') != NULL) return NULL;
    return document_scope_pair(request, action, scope);
}

static struct result add_pair(struct request *request, enum action action, const struct document *document, struct error *err)
{
    if (document->kind != DOCUMENT_RESTRICTION) return failure(err, ERROR_INVALID, "the document of a restriction is expected");
    if (request->reference != NULL && strcmp(request->reference, document->name) != 0)
        return failure(err, ERROR_INVALID, "the path and the document have different names");
    struct resource *resource = organisation_pair(request, action, document->scope);
    if (resource == NULL) return failure(err, ERROR_INVALID, "the scope of a restriction is an organisation");
    (void)snprintf(resource->detail, sizeof resource->detail, "%s", document->name);
    return SUCCESS;
}

struct result target_restriction_draft(struct request *request, struct lookup *lookup, struct error *err)
{
    const struct signed_body *body = NULL;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_RESTRICTION_DRAFT)) return SUCCESS;
    TRY(request_envelope(request, &body, err));
    return add_pair(request, ACTION_RESTRICTION_DRAFT, body->document, err);
}

struct result target_restriction_approve(struct request *request, struct lookup *lookup, struct error *err)
{
    const struct signed_body *body = NULL;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_RESTRICTION_APPROVE)) return SUCCESS;
    TRY(request_envelopes(request, &body, err));
    return add_pair(request, ACTION_RESTRICTION_APPROVE, body->document, err);
}

static struct result target_named(struct request *request, enum action action)
{
    const char *name = request->reference;
    struct resource *resource = organisation_pair(request, action, request_argument(request, "scope"));

    if (resource == NULL) (void)api_pair(request, action, RESOURCE_SYSTEM, "");
    if (resource == NULL || name[0] == '\0' || strlen(name) > RESTRICTION_NAME_MAX ||
        !text_consists_of(bytes_of_text(name), NAME_LETTERS))
        response_unknown(request);
    else (void)snprintf(resource->detail, sizeof resource->detail, "%s", name);
    return SUCCESS;
}

struct result target_restriction_reject(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return target_named(request, ACTION_RESTRICTION_REJECT);
}

struct result target_restriction_show(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return target_named(request, ACTION_RESTRICTION_READ);
}

struct result target_restriction_list(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    if (api_asks_for_credential(request, ACTION_RESTRICTION_READ)) return SUCCESS;
    if (organisation_pair(request, ACTION_RESTRICTION_READ, request_argument(request, "scope")) != NULL) return SUCCESS;
    (void)api_pair(request, ACTION_RESTRICTION_READ, RESOURCE_SYSTEM, "");
    response_unknown(request);
    return SUCCESS;
}

/* ---- what sijil-keyd would say ---- */

/* The policies of the organisation that are in force, without the one of this name. */
struct gathering {
    const char *but;
    int64_t now_ms;
    json_t *policies;
};

static struct result gather(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct gathering *gathering = context;
    const json_t *policy = json_object_get(json_object_get(pinned->document->json, "body"), "policy");

    if (!document_is_in_force(pinned->document, gathering->now_ms) || strcmp(pinned->document->name, gathering->but) == 0)
        return SUCCESS;
    if (json_array_append(gathering->policies, (json_t *)(uintptr_t)policy) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for restrictions");
}

/* All restrictions of the organisation with the policies of the set: what can't be evaluated together would deny everything there. */
static struct result check_together(const struct request *request, const struct document *document, struct error *err)
{
    OWNED(policy_set) *set = decider_policy_set(request->gateway->decider);
    OWNED(policy_documents) *joined = NULL;
    OWNED_STRING digests = NULL;
    OWNED_JSON policies = json_array();
    struct gathering gathering = {document->name, clock_wall_ms(), policies};
    const struct document_scope scope = {document->scope, 0};
    const json_t *policy = NULL;

    if (policies == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for restrictions");
    TRY(restriction_read(document, &policy, err));
    const struct view_range range = {DOCUMENT_RESTRICTION, &scope, "", SIZE_MAX};
    TRY(document_view_visit(request->gateway->documents, &range, gather, &gathering, err));
    if (json_array_append(policies, (json_t *)(uintptr_t)policy) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for restrictions");
    TRY(policy_restrictions_digests(policies, &digests, err));
    return set == NULL ? SUCCESS : policy_restrictions_join(set, policies, &joined, err);
}

struct judged {
    struct restriction_officers officers;
    unsigned persons, needed;
};

/* A stolen key file must not sign together with the login of another person. */
static struct result check_sender(const struct request *request, const struct signed_body *body,
                                  const struct restriction_officers *officers, struct error *err)
{
    OWNED(document) *last = NULL;
    char asking[PRINCIPAL_KEY_SIZE];
    uint8_t principal[SHA256_SIZE];

    TRY(document_read(&body->envelopes[body->count - 1], 1, &last, err));
    principal_key(request->principal, asking);
    sha256_of(bytes_of_text(asking), principal);
    for (size_t i = 0; i < officers->count; i++) {
        bool is_signed = false;
        TRY(document_is_signed_by(last, officers->each[i].point, &is_signed, err));
        if (is_signed && memcmp(officers->each[i].principal, principal, sizeof principal) == 0) return SUCCESS;
    }
    return failure(err, ERROR_DENIED,
                   "an officer of the organisation signs with the key that its document of officers names, and sends it itself");
}

static struct result check_end(const struct document *document, const struct document_known *known, struct error *err)
{
    if (!document->is_withdrawn) return SUCCESS;
    if (known->version == 0) return failure(err, ERROR_NOT_FOUND, "there is no restriction of this name in this organisation");
    return known->is_withdrawn ? failure(err, ERROR_CONFLICT, "this restriction was withdrawn already") : SUCCESS;
}

static struct result judge(struct request *request, struct pg *pg, const struct signed_body *body, struct judged *judged,
                           struct error *err)
{
    const struct document *document = body->document;
    struct document_known known;
    struct document_trust trust;

    TRY(document_check_newer(request, pg, document, &known, err));
    TRY(check_end(document, &known, err));
    TRY(document_trust_now(request, &trust, err));
    TRY(document_check(document, &trust, err));
    if (!document->is_withdrawn) TRY(check_together(request, document, err));
    TRY(restriction_officers_find(request->gateway->documents, document->scope, trust.now_ms, &judged->officers, err));
    TRY(check_sender(request, body, &judged->officers, err));
    TRY(restriction_count(document, &judged->officers, &judged->persons, err));
    judged->needed = restriction_needs(document, &judged->officers, known.version == 0);
    if (judged->persons == body->count) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "%u officers of the organisation have signed, with %zu signatures: each of another one",
                   judged->persons, body->count);
}

/* ---- drafts and what comes into force ---- */

static struct result record(struct request *request, enum action action, struct change *change, struct error *err)
{
    struct action_pair pair = request->pairs[0];

    if (action == pair.action) return request_record(request, change, err);
    pair.action = action;
    return request_record_instead(request, &pair, 1, change, err);
}

static struct result keep_draft(struct request *request, const struct signed_body *body, struct error *err)
{
    struct document_draft_change change;
    char drafter[PRINCIPAL_KEY_SIZE];

    principal_key(request->principal, drafter);
    const struct document_draft_row row = {ACTION_RESTRICTION_DRAFT,
                                           body->document,
                                           body->envelopes,
                                           body->count,
                                           drafter,
                                           &request->pairs[0].resource.organisation};
    document_draft_change_init(&change, &row);
    TRY(record(request, ACTION_RESTRICTION_DRAFT, &change.change, err));
    return document_answer(request, 201, body->document, 0, err);
}

/* The epoch of rights rises with it: every gateway reads the restrictions before it decides again. */
static struct result put_in_force(struct request *request, struct pg *pg, const struct signed_body *body, struct error *err)
{
    const enum action action = body->document->is_withdrawn ? ACTION_RESTRICTION_REVOKE : ACTION_RESTRICTION_APPROVE;
    struct trust_rule_change change;
    char recorder[PRINCIPAL_KEY_SIZE];
    unsigned status = 0;

    principal_key(request->principal, recorder);
    const struct document_row row = {action, body->document, body->envelopes, body->count, recorder};
    trust_rule_change_init(&change, &row, body->count > 1, NULL);
    TRY(record(request, action, &change.change, err));
    const uint64_t sequence = permit_sequence(request->permit);
    TRY(document_put_in_force(request, pg, DOCUMENT_RESTRICTION, &status, err));
    return document_answer(request, status, body->document, sequence, err);
}

static struct result take(struct request *request, struct pg *pg, const struct signed_body *body, struct error *err)
{
    struct judged judged;
    bool holds = false;

    TRY(api_scope_exists(&request->pairs[0].resource, err));
    TRY(document_condition(request, pg, body->document, &holds, err));
    if (!holds) return SUCCESS;
    TRY(judge(request, pg, body, &judged, err));
    return judged.persons < judged.needed ? keep_draft(request, body, err) : put_in_force(request, pg, body, err);
}

static struct result handle_draft(struct request *request, struct pg *pg, struct error *err)
{
    const struct signed_body *body = NULL;

    TRY(request_envelope(request, &body, err));
    return take(request, pg, body, err);
}

static struct result handle_approve(struct request *request, struct pg *pg, struct error *err)
{
    const struct signed_body *body = NULL;

    TRY(request_envelopes(request, &body, err));
    if (body->count < 2) return failure(err, ERROR_INVALID, "envelopes: those of the draft, and your own as the last");
    return take(request, pg, body, err);
}

static struct result handle_reject(struct request *request, struct pg *pg, struct error *err)
{
    (void)pg;
    return document_remove_drafts(request, DOCUMENT_RESTRICTION, NULL, err);
}

/* ---- lists ---- */

struct listing {
    struct restriction_officers officers;
    const struct request *request;
    json_t *list;
};

static struct result note_version(void *context, const struct pinned_document *pinned, struct error *err)
{
    (void)err;
    *(uint64_t *)context = pinned->document->version;
    return SUCCESS;
}

static struct result was_pinned(const struct listing *listing, const struct document *document, bool *was_pinned_out,
                                struct error *err)
{
    const struct document_scope any = {document->scope, 0};
    const struct view_range one = {DOCUMENT_RESTRICTION, &any, document->name, 1};
    struct error none = {0};
    uint64_t version = 0;

    if (!document_view_find(listing->request->gateway->documents, &one, note_version, &version, &none).ok &&
        none.kind != ERROR_NOT_FOUND)
        return failure(err, none.kind, "%s", none.message);
    *was_pinned_out = version != 0;
    return SUCCESS;
}

static struct result add_envelopes(json_t *value, const struct drafted_document *drafted, struct error *err)
{
    OWNED_JSON envelopes = json_array();

    for (size_t i = 0; i < drafted->document->signature_count; i++) {
        json_t *whole = NULL;
        TRY(json_read(drafted->envelopes[i], drafted->envelopes[i].length, &whole, err));
        if (json_array_append_new(envelopes, whole) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for a draft");
    }
    if (json_object_set(value, "envelope", json_array_get(envelopes, 0)) == 0 &&
        json_object_set(value, "envelopes", envelopes) == 0)
        return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a draft");
}

/* Others may have written the row: one with a signature that does not count is left out. */
static struct result append_draft(void *context, const struct drafted_document *drafted, struct error *err)
{
    const struct listing *listing = context;
    OWNED_JSON value = NULL;
    unsigned persons = 0;
    bool is_known = false;

    TRY(restriction_count(drafted->document, &listing->officers, &persons, err));
    if (persons != drafted->document->signature_count) return SUCCESS;
    TRY(was_pinned(listing, drafted->document, &is_known, err));
    const unsigned needed = restriction_needs(drafted->document, &listing->officers, !is_known);
    TRY(document_describe(drafted->document, 0, &value, err));
    TRY(add_envelopes(value, drafted, err));
    if (json_object_set_new(value, "missing", json_integer(persons < needed ? needed - persons : 0)) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for a draft");
    return document_list_add(listing->list, json_incref(value), err);
}

static struct result add_drafts(struct request *request, struct pg *pg, const char *scope, json_t *list, struct error *err)
{
    const struct document_draft_query query = {ACTION_RESTRICTION_READ, DOCUMENT_RESTRICTION, scope, NULL};
    struct listing listing = {.request = request, .list = list};

    TRY(restriction_officers_find(request->gateway->documents, scope, clock_wall_ms(), &listing.officers, err));
    return document_draft_visit(request->permit, pg, &query, append_draft, &listing, err);
}

static struct result handle_list(struct request *request, struct pg *pg, struct error *err)
{
    const struct resource *where = permit_resource(request->permit, ACTION_RESTRICTION_READ);
    OWNED_JSON value = json_pack("{s:[], s:[]}", "restrictions", "drafts");
    const struct document_scope scope = {where->name, 0};
    struct api_page page;

    if (!api_page(request, &page)) return SUCCESS;
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    TRY(document_refresh(request, pg, err));
    const struct view_range range = {DOCUMENT_RESTRICTION, &scope, page.after, page.limit + 1};
    TRY(document_view_visit(request->gateway->documents, &range, document_list_pinned, json_object_get(value, "restrictions"),
                            err));
    if (page.after[0] == '\0') TRY(add_drafts(request, pg, where->name, json_object_get(value, "drafts"), err));
    return document_list_answer(request, value, "restrictions", page.limit, err);
}

static struct result handle_show(struct request *request, struct pg *pg, struct error *err)
{
    OWNED_JSON value = NULL;

    TRY(document_show(request, pg, ACTION_RESTRICTION_READ, DOCUMENT_RESTRICTION, &value, err));
    return document_answer_shown(request, value, true, err);
}

const struct handler handler_restriction_draft = {.handle = handle_draft};
const struct handler handler_restriction_approve = {.handle = handle_approve};
const struct handler handler_restriction_reject = {.handle = handle_reject};
const struct handler handler_restriction_list = {.handle = handle_list};
const struct handler handler_restriction_show = {.handle = handle_show};
