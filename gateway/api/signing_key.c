/* /api/v1/keys/signing: enrolling, approving and withdrawing keys of people; docs/documents.md. */
#include <stdio.h>
#include <string.h>

#include "authz/trust_rule.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "documents/change.h"
#include "gateway/api/signing_key_priv.h"
#include "gateway/pipeline/signed_body.h"
#include "policy/decider/decider.h"
#include "registry/names/reference.h"

/* ---- the request ---- */

static struct result check_kind(const struct document *document, struct error *err)
{
    return document->kind == DOCUMENT_SIGNING_KEY ? SUCCESS
                                                  : failure(err, ERROR_INVALID, "the document of a signing key is expected");
}

/* The body is one envelope of a signing key's document. */
static struct result read_body(struct request *request, const struct signed_body **body_out, struct error *err)
{
    TRY(request_envelope(request, body_out, err));
    return check_kind((*body_out)->document, err);
}

/* The body has all envelopes of a document: the holder's, from the draft, and the approver's. */
static struct result read_envelopes(struct request *request, const struct signed_body **body_out, struct error *err)
{
    TRY(request_envelopes(request, body_out, err));
    return check_kind((*body_out)->document, err);
}

static struct result add_pair(struct request *request, enum action action, const struct document *document, struct error *err)
{
    struct resource *resource = document_scope_pair(request, action, document->scope);

    if (request->reference != NULL && strcmp(request->reference, document->name) != 0)
        return failure(err, ERROR_INVALID, "the path and the document name different keys");
    if (resource == NULL)
        return failure(err, ERROR_INVALID, "the scope of a key is \"\", an organisation, or an organisation and a project");
    (void)snprintf(resource->detail, sizeof resource->detail, "%s", document->name);
    return SUCCESS;
}

static struct result add_target(struct request *request, enum action action, struct error *err)
{
    const struct signed_body *body = NULL;

    if (api_asks_for_credential(request, action)) return SUCCESS;
    TRY(read_body(request, &body, err));
    return add_pair(request, action, body->document, err);
}

struct result target_key_enroll(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return add_target(request, ACTION_KEY_ENROLL, err);
}

struct result target_key_revoke(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return add_target(request, ACTION_KEY_REVOKE, err);
}

struct result target_key_read(struct request *request, struct lookup *lookup, struct error *err)
{
    const char *scope = request_argument(request, "scope");

    (void)lookup;
    (void)err;
    if (document_scope_pair(request, ACTION_KEY_READ, scope == NULL ? "" : scope) == NULL) response_unknown(request);
    return SUCCESS;
}

struct result target_key_show(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return document_target_named(request, ACTION_KEY_READ);
}

/* ---- known keys ---- */

/* The newest pinned version of a key: enrolled or withdrawn. */
struct known_key {
    uint64_t version, sequence;
    uint8_t digest[DOCUMENT_DIGEST_SIZE];
    struct signing_key key;
};

static struct result note_key(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct known_key *known = context;

    known->version = pinned->document->version;
    known->sequence = pinned->sequence;
    memcpy(known->digest, pinned->document->digest, sizeof known->digest);
    return signing_key_read(pinned->document, &known->key, err);
}

/*
 * A key that was enrolled in a deleted organisation of this name is not known, but its document can't be used again. A withdrawn key
 * stays withdrawn in each organisation of the name.
 */
static struct result leave_out_deleted(const struct document *document, uint64_t since, struct known_key *known,
                                       struct error *err)
{
    if (known->sequence >= since || known->version != 1) return SUCCESS;
    if (memcmp(known->digest, document->digest, sizeof known->digest) == 0)
        return failure(err, ERROR_CONFLICT,
                       "this document was for a deleted organisation or project of the name: sign another one");
    *known = (struct known_key){0};
    return SUCCESS;
}

struct any_scope {
    const struct signing_key *key; /* that is to be enrolled or withdrawn */
    bool is_withdrawn, is_of_another;
};

static struct result note_any_scope(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct any_scope *found = context;
    struct signing_key key;

    TRY(signing_key_read(pinned->document, &key, err));
    if (pinned->document->is_withdrawn) found->is_withdrawn = true;
    if (strcmp(key.principal, found->key->principal) != 0) found->is_of_another = true;
    return SUCCESS;
}

/* A key belongs to one principal. A withdrawal is for ever, in all scopes, and also after a deletion. */
static struct result check_all_scopes(const struct request *request, const struct document *document, struct error *err)
{
    struct any_scope found = {0};
    struct signing_key key;

    TRY(signing_key_read(document, &key, err));
    found.key = &key;
    TRY(document_view_visit_name(request->gateway->documents, DOCUMENT_SIGNING_KEY, document->name, note_any_scope, &found, err));
    if (found.is_withdrawn) return failure(err, ERROR_CONFLICT, "this key was withdrawn, for good: make another one");
    if (found.is_of_another && !document->is_withdrawn)
        return failure(err, ERROR_CONFLICT, "this key belongs to another principal, for good: make another one");
    return SUCCESS;
}

/* version 0: the key is not known. */
static struct result find_known(const struct request *request, struct pg *pg, const struct document *document,
                                struct known_key *known_out, struct error *err)
{
    const struct document_scope any = {document->scope, 0};
    const struct view_range one = {DOCUMENT_SIGNING_KEY, &any, document->name, 1};
    struct document_scope scope;
    struct error none = {0};

    *known_out = (struct known_key){0};
    TRY(document_scope_find(lookup_of(pg), document->scope, &scope, err));
    if (document_view_find(request->gateway->documents, &one, note_key, known_out, &none).ok)
        return leave_out_deleted(document, scope.since, known_out, err);
    return none.kind == ERROR_NOT_FOUND ? SUCCESS : failure(err, none.kind, "%s", none.message);
}

/* A document must have a newer version than the newest known one of its key. */
static struct result check_newer(struct request *request, struct pg *pg, const struct document *document,
                                 struct known_key *known_out, struct error *err)
{
    TRY(document_refresh(request, pg, err));
    TRY(check_all_scopes(request, document, err));
    TRY(find_known(request, pg, document, known_out, err));
    if (document->version > known_out->version) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "this key is enrolled already");
}

/* ---- recording ---- */

/* Makes the same checks as sijil-keyd, so that no document is recorded that sijil-keyd would refuse. */
static struct result check_signatures(const struct request *request, const struct document *document,
                                      struct document_trust *trust_out, struct error *err)
{
    struct document_trust noted;

    TRY(document_trust_now(request, trust_out, err));
    TRY(document_check(document, trust_out, err));
    noted = *trust_out;
    return signing_key_note(document, noted.approvers, noted.now_ms, err);
}

static struct result answer(struct request *request, unsigned status, const struct document *document, uint64_t sequence,
                            struct error *err)
{
    OWNED_JSON value = NULL;

    TRY(document_describe(document, sequence, &value, err));
    response_json(request, status, value);
    return SUCCESS;
}

static struct result record(struct request *request, struct pg *pg, struct document_row *row, bool ends_draft, struct error *err)
{
    struct document_change plain;
    struct trust_rule_change ending; /* an officer's role may end with its key, so all rights are read again */
    char recorder[PRINCIPAL_KEY_SIZE];
    unsigned status = 0;

    principal_key(request->principal, recorder);
    row->recorded_by = recorder;
    document_change_init(&plain, row, ends_draft);
    trust_rule_change_init(&ending, row, ends_draft, NULL);
    TRY(request_record(request, row->document->is_withdrawn ? &ending.change : &plain.change, err));
    const uint64_t sequence = permit_sequence(request->permit);
    TRY(document_put_in_force(request, pg, DOCUMENT_SIGNING_KEY, &status, err));
    return answer(request, status, row->document, sequence, err);
}

/* ---- enrolling ---- */

/* The key must belong to the caller, and the caller must be a person. */
static struct result check_holder(const struct request *request, const struct document *document, struct error *err)
{
    const struct persons person =
        decider_persons(request->gateway->decider, request->principal, &request->pairs[0].resource.organisation);
    char asking[PRINCIPAL_KEY_SIZE];
    struct signing_key key;

    TRY(signing_key_check_holder(document, clock_wall_ms(), &key, err));
    principal_key(request->principal, asking);
    if (strcmp(key.principal, asking) != 0)
        return failure(err, ERROR_DENIED, "the document names another principal than %s", asking);
    if (persons_are_one(&person)) return SUCCESS;
    if (persons_are_known(&person))
        return failure(err, ERROR_DENIED, "a signing key is one person's, and several have seen the secret of this robot");
    return failure(err, ERROR_DENIED,
                   "a signing key is a person's, and nobody is behind this robot (docs/identity.md, \"Persons\")");
}

static struct result handle_enroll(struct request *request, struct pg *pg, struct error *err)
{
    const struct resource *where = &request->pairs[0].resource;
    const struct signed_body *body = NULL;
    struct document_draft_change change;
    struct known_key known;
    char drafter[PRINCIPAL_KEY_SIZE];

    TRY(api_scope_exists(where, err));
    TRY(read_body(request, &body, err));
    const struct document *document = body->document;
    TRY(check_holder(request, document, err));
    TRY(check_newer(request, pg, document, &known, err));
    TRY(key_check_old(request, document, err));
    principal_key(request->principal, drafter);
    const struct document_draft_row row = {ACTION_KEY_ENROLL, document,
                                           body->envelopes,   body->count,
                                           drafter,           uuid_is_nil(&where->organisation) ? NULL : &where->organisation};
    document_draft_change_init(&change, &row);
    TRY(request_record(request, &change.change, err));
    return answer(request, 201, document, 0, err);
}

/* ---- approving ---- */

struct result target_key_approve(struct request *request, struct lookup *lookup, struct error *err)
{
    const struct signed_body *body = NULL;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_KEY_APPROVE)) return SUCCESS;
    TRY(read_envelopes(request, &body, err));
    return add_pair(request, ACTION_KEY_APPROVE, body->document, err);
}

/* Only persons_of() decides whether two principals are different persons. */
static struct result check_persons(const struct request *request, const struct document *document, struct error *err)
{
    const struct uuid *organisation = &request->pairs[0].resource.organisation;
    const struct persons approver = decider_persons(request->gateway->decider, request->principal, organisation);
    struct signing_key key;

    TRY(signing_key_read(document, &key, err));
    const struct persons holder = decider_persons_of_key(request->gateway->decider, key.principal, organisation);
    if (persons_are_others(&approver, &holder)) return SUCCESS;
    if (!persons_are_known(&approver))
        return failure(err, ERROR_DENIED,
                       "another person must approve a key, and nobody is behind this robot (docs/identity.md, \"Persons\")");
    return failure(err, ERROR_DENIED, "another person than the key's holder must approve it");
}

/* If the root is several persons, an approver's key takes the root's signature and those of others, one after the other. */
static bool waits_for_more(const struct signed_body *body, const struct document_trust *trust)
{
    const char *purpose = json_text_of(json_object_get(body->document->json, "body"), "purpose");

    return !document_root_is_one(trust) && purpose != NULL && strcmp(purpose, "approve") == 0 &&
           body->count <= trust->terms.officers;
}

static struct result confirm(struct request *request, const struct signed_body *body, struct error *err)
{
    struct action_pair pair = request->pairs[0];
    struct document_draft_change change;
    char drafter[PRINCIPAL_KEY_SIZE];
    const struct document_draft_row row = {ACTION_KEY_CONFIRM, body->document, body->envelopes, body->count, drafter, NULL};

    principal_key(request->principal, drafter);
    document_draft_change_init(&change, &row);
    pair.action = ACTION_KEY_CONFIRM;
    TRY(request_record_instead(request, &pair, 1, &change.change, err));
    return answer(request, 200, body->document, 0, err);
}

/* The last envelope is the caller's own. */
static struct result check_last(const struct request *request, const struct signed_body *body, const struct document_trust *trust,
                                struct error *err)
{
    OWNED(document) *envelope = NULL;
    const uint8_t *point = NULL;
    bool is_sender = false;

    TRY(document_read(&body->envelopes[body->count - 1], 1, &envelope, err));
    TRY(document_approver_key(trust, envelope, &point, err));
    TRY(document_check_sender(request, point, trust, &is_sender, err));
    return is_sender ? SUCCESS : failure(err, ERROR_DENIED, DOCUMENT_SENT_BY_ANOTHER);
}

static struct result approve(struct request *request, struct pg *pg, const struct signed_body *body,
                             const struct document_trust *trust, struct error *err)
{
    struct document_row row = {
        .action = ACTION_KEY_APPROVE, .document = body->document, .envelopes = body->envelopes, .envelope_count = body->count};
    struct key_wait wait;

    TRY(key_check_old(request, body->document, err));
    TRY(key_wait_find(request, body->document, trust, &wait, err));
    if (!wait.is_asked) return record(request, pg, &row, true, err);
    if (!wait.is_begun) return key_wait_begin(request, pg, body, err);
    const int64_t left_ms = wait.counts_ms - clock_wall_ms();
    if (left_ms <= 0) return record(request, pg, &row, true, err);
    return failure(err, ERROR_CONFLICT,
                   "this person has a key already, so the new one waits for %lld more minutes: approve it again then",
                   (long long)(left_ms / 60000 + 1));
}

static struct result handle_approve(struct request *request, struct pg *pg, struct error *err)
{
    const struct signed_body *body = NULL;
    struct document_trust trust;
    struct known_key known;

    TRY(read_envelopes(request, &body, err));
    if (body->document->is_withdrawn)
        return failure(err, ERROR_INVALID, "a withdrawal is not approved, but sent to its own route");
    TRY(api_scope_exists(&request->pairs[0].resource, err));
    TRY(check_persons(request, body->document, err));
    TRY(check_newer(request, pg, body->document, &known, err));
    TRY(document_trust_now(request, &trust, err));
    if (!document_root_is_one(&trust)) TRY(check_last(request, body, &trust, err));
    if (waits_for_more(body, &trust)) return confirm(request, body, err);
    TRY(check_signatures(request, body->document, &trust, err));
    if (document_root_is_one(&trust)) TRY(document_check_approver(request, body->document, &trust, err));
    return approve(request, pg, body, &trust, err);
}

/* ---- withdrawing ---- */

static struct result check_withdrawal(const struct request *request, const struct document *document,
                                      const struct known_key *known, struct error *err)
{
    struct signing_key key;
    bool is_waiting = false;

    if (!document->is_withdrawn) return failure(err, ERROR_INVALID, "the document withdraws nothing: \"withdrawn\" says why");
    TRY(key_check_old(request, document, err));
    TRY(key_is_waiting(request, document, &is_waiting, err));
    if (is_waiting) return SUCCESS;
    if (known->version == 0) return failure(err, ERROR_NOT_FOUND, "no key of this name is enrolled");
    TRY(signing_key_read(document, &key, err));
    if (signing_key_has_old(&key))
        return failure(err, ERROR_DENIED, "this key does not wait: the key itself, the root or an approver withdraws it");
    if (strcmp(key.principal, known->key.principal) == 0 && key.purpose == known->key.purpose) return SUCCESS;
    return failure(err, ERROR_INVALID, "a withdrawal names principal and purpose as the enrolment does");
}

static struct result handle_revoke(struct request *request, struct pg *pg, struct error *err)
{
    const struct signed_body *body = NULL;
    struct document_trust trust;
    struct known_key known;

    TRY(read_body(request, &body, err));
    TRY(check_newer(request, pg, body->document, &known, err));
    TRY(check_withdrawal(request, body->document, &known, err));
    TRY(check_signatures(request, body->document, &trust, err));
    struct document_row row = {
        .action = ACTION_KEY_REVOKE, .document = body->document, .envelopes = body->envelopes, .envelope_count = body->count};
    return record(request, pg, &row, false, err);
}

/* ---- removing drafts ---- */

struct result target_key_discard(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return document_target_named(request, ACTION_KEY_DISCARD);
}

struct result target_key_reject(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return document_target_named(request, ACTION_KEY_REJECT);
}

static struct result handle_discard(struct request *request, struct pg *pg, struct error *err)
{
    char asking[PRINCIPAL_KEY_SIZE];

    (void)pg;
    principal_key(request->principal, asking);
    return document_remove_drafts(request, DOCUMENT_SIGNING_KEY, asking, err);
}

static struct result handle_reject(struct request *request, struct pg *pg, struct error *err)
{
    (void)pg;
    return document_remove_drafts(request, DOCUMENT_SIGNING_KEY, NULL, err);
}

const struct handler handler_key_discard = {.handle = handle_discard};
const struct handler handler_key_reject = {.handle = handle_reject};
const struct handler handler_key_enroll = {.handle = handle_enroll};
const struct handler handler_key_approve = {.handle = handle_approve};
const struct handler handler_key_revoke = {.handle = handle_revoke};
