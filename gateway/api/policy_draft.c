/* /api/v1/policies/drafts: policy sets that wait for the signatures of several persons; docs/policies.md. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "documents/format/set_approval.h"
#include "gateway/api/document_priv.h"
#include "gateway/api/policy_priv.h"
#include "policy/decider/decider.h"
#include "policy/decider/set_draft.h"
#include "policy/places.h"

#define SIGNERS_MAX (DOCUMENT_APPROVERS_MAX + 1) /* and the root */

PART(policy_base, "the set that it replaces; epoch 0 and zeros: it is the first one", HAS_COUNT("epoch", REQUIRED, "its number"),
     HAS_TEXT("digest", REQUIRED, FORM_DIGEST, 71, 71, "its digest"))
SCHEMA(policy_draft, "a policy set that waits for signatures",
       HAS_TEXT("name", REQUIRED, FORM_FREE, 16, 16, "names it in paths: the first hex digits of the SHA-256 of its payload"),
       HAS_COUNT("epoch", REQUIRED, "its number"), HAS_TEXT("digest", REQUIRED, FORM_DIGEST, 71, 71, "its digest"),
       HAS_OBJECT("replaces", REQUIRED, schema_policy_base, "the set that must be in force when it comes into force"),
       HAS_SIGNED_TIME("expires", REQUIRED, "it does not come into force later"),
       HAS_SIGNED_TIME("effective_from", OPTIONAL, "it does not come into force earlier"),
       HAS_TEXT("comment", OPTIONAL, FORM_FREE, 1, SET_APPROVAL_COMMENT_MAX, "what it is for"),
       HAS_TEXT("plan", OPTIONAL, FORM_DIGEST, 71, 71, "the digest of the plan that its signers have seen"),
       HAS_TEXT("drafted_by", REQUIRED, FORM_FREE, 1, 255, "the principal that submitted it"),
       HAS_TEXTS("signed_by", REQUIRED, 0, SIGNERS_MAX, NULL, "the principals whose keys have signed it, and `root`"),
       HAS_COUNT("persons", REQUIRED, "how many different persons that count have signed it"),
       HAS_COUNT("needed", REQUIRED, "how many must"),
       HAS_TEXTS("missing", REQUIRED, 0, 0, NULL, "the principals that its new exceptions name, and that have not signed yet"),
       HAS_WORD("change", REQUIRED, "changes loosens restricts",
                "what it does to the set in force: a loosening takes one person more, and what only restricts takes one"),
       HAS_TEXT("why", OPTIONAL, FORM_FREE, 1, SET_CHANGE_WHY_SIZE, "what it loosens first, as far as the analysis has found"),
       HAS_WORD("state", REQUIRED, "waits in-force recorded", "recorded: in force when sijil-keyd can be asked"),
       HAS_FLAG("changes_root", REQUIRED, "whether it changes how many must sign from then on"),
       HAS_TEXT("payload", OPTIONAL, FORM_FREE, 1, 0, "of one draft: the set, byte for byte as it is to be signed"))
SCHEMA(policy_drafts, "policy sets that wait for signatures",
       HAS_LIST("drafts", REQUIRED, POLICY_DRAFTS_MAX, schema_policy_draft, "the first to expire first"))
SCHEMA_WITH(SCHEMA_IS_READ_ELSEWHERE | SCHEMA_IS_OPEN, policy_payload,
            "a policy set with the member `approval`, not signed yet, as canonical JSON",
            HAS_ANY("approval", REQUIRED, "an object: the set that it replaces, and until when it may come into force"))

/* ---- targets ---- */

static struct result add_target(struct request *request, enum action action)
{
    struct resource *resource = api_pair(request, action, RESOURCE_SYSTEM, "");

    if (request->reference != NULL) (void)snprintf(resource->detail, sizeof resource->detail, "%.16s", request->reference);
    return SUCCESS;
}

struct result target_policy_draft(struct request *request, struct lookup *lookup, struct error *err)
{
    struct resource *resource = api_pair(request, ACTION_POLICY_DRAFT, RESOURCE_SYSTEM, "");
    char name[POLICY_DRAFT_NAME_SIZE];

    (void)lookup, (void)err;
    if (request->body.length == 0) return SUCCESS;
    policy_draft_name(request->body, name);
    (void)snprintf(resource->detail, sizeof resource->detail, "%s", name);
    return SUCCESS;
}

struct result target_policy_drafts(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return add_target(request, ACTION_POLICY_READ);
}

struct result target_policy_discard(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return add_target(request, ACTION_POLICY_DISCARD);
}

struct result target_policy_approve(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return add_target(request, ACTION_POLICY_APPROVE);
}

/* ---- what a draft is ---- */

struct draft {
    struct document *document;
    struct set_approval approval;
    struct set_signers signers;
};

static void draft_done(struct draft *draft)
{
    document_free(draft->document);
}
#define OWNED_DRAFT __attribute__((cleanup(draft_done))) struct draft

/* Whoever writes into the table can put other signatures there: they count for nothing, and another payload is left out. */
static struct result read_draft(const struct policy_draft *row, const struct document_trust *trust, struct draft *draft_out,
                                struct error *err)
{
    OWNED_DRAFT draft = {.document = NULL};
    struct error ignored = {0};

    if (row->envelope.length > 0 && document_read(&row->envelope, 1, &draft.document, &ignored).ok &&
        !bytes_equal(document_payload(draft.document), row->payload)) {
        document_free(draft.document);
        draft.document = NULL;
    }
    if (draft.document == NULL) TRY(document_read_payload(DOCUMENT_POLICY_SET, row->payload, &draft.document, err));
    TRY(set_approval_read(draft.document->json, &draft.approval, err));
    if (!draft.approval.is_there) return failure(err, ERROR_INVALID, "a draft says which set it replaces: \"approval\"");
    struct document_trust then = *trust;
    then.change = row->change;
    TRY(set_count_signers(draft.document, &then, &draft.signers, err));
    *draft_out = draft;
    draft.document = NULL;
    return SUCCESS;
}

static struct result add_signer(const struct request *request, const struct document *document, const uint8_t *point,
                                const char *fixed, json_t *list, struct error *err)
{
    struct signing_key key = {0};
    bool is_signed = false;

    TRY(document_is_signed_by(document, point, &is_signed, err));
    if (!is_signed) return SUCCESS;
    if (fixed == NULL) TRY(document_key_owner(request, point, &key, err));
    if (json_array_append_new(list, json_string(fixed == NULL ? key.principal : fixed)) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for the signers of a draft");
}

static struct result list_signers(const struct request *request, const struct draft *draft, const struct document_trust *trust,
                                  json_t *list, struct error *err)
{
    TRY(add_signer(request, draft->document, trust->root, "root", list, err));
    for (size_t i = 0; i < DOCUMENT_APPROVERS_MAX; i++)
        if (document_approver_counts(&trust->approvers[i], trust->now_ms))
            TRY(add_signer(request, draft->document, trust->approvers[i].point, NULL, list, err));
    return SUCCESS;
}

static const char *const change_names[] = {[SET_CHANGES] = "changes", [SET_LOOSENS] = "loosens", [SET_RESTRICTS] = "restricts"};

/* status: of the answer that puts it into force; 0 as long as it waits. */
static struct result describe(const struct request *request, const struct policy_draft *row, const struct document_trust *trust,
                              unsigned status, json_t **value_out, struct error *err)
{
    OWNED_DRAFT draft = {.document = NULL};
    OWNED_JSON signers = json_array();
    OWNED_JSON missing = json_array();

    TRY(read_draft(row, trust, &draft, err));
    const json_t *set = draft.document->json, *approval = json_object_get(set, "approval");
    const struct set_signers *counted = &draft.signers;
    const bool changes = counted->demanded > 0;
    unsigned persons, needed;
    set_signers_shown(counted, &persons, &needed);
    TRY(list_signers(request, &draft, trust, signers, err));
    TRY(policy_missing_approvers(request, row->payload, draft.document, trust, missing, err));
    json_t *value = json_pack("{s:s, s:O, s:O, s:O, s:O, s:O*, s:O*, s:O*, s:s, s:O, s:i, s:i, s:O, s:s, s:s*, s:s, s:b}", "name",
                              row->name, "epoch", json_object_get(set, "epoch"), "digest", json_object_get(set, "digest"),
                              "replaces", json_object_get(approval, "replaces"), "expires", json_object_get(approval, "expires"),
                              "effective_from", json_object_get(approval, "effective_from"), "comment",
                              json_object_get(approval, "comment"), "plan", json_object_get(approval, "plan"), "drafted_by",
                              row->drafted_by, "signed_by", signers, "persons", (int)persons, "needed", (int)needed, "missing",
                              missing, "change", change_names[row->change], "why", row->why[0] == '\0' ? NULL : row->why, "state",
                              status == 0 ? "waits" : (status == 201 ? "in-force" : "recorded"), "changes_root", changes ? 1 : 0);
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a draft");
    *value_out = value;
    return SUCCESS;
}

/* ---- reading ---- */

struct listing {
    const struct request *request;
    struct document_trust trust;
    json_t *list;
};

/* A row that is no draft was written outside the application. */
static struct result list_one(void *context, const struct policy_draft *row, struct error *err)
{
    struct listing *listing = context;
    json_t *value = NULL;
    struct error refused = {0};

    if (describe(listing->request, row, &listing->trust, 0, &value, &refused).ok)
        return document_list_add(listing->list, value, err);
    return refused.kind == ERROR_INVALID || refused.kind == ERROR_LIMIT ? SUCCESS
                                                                        : failure(err, refused.kind, "%s", refused.message);
}

static struct result handle_list(struct request *request, struct pg *pg, struct error *err)
{
    OWNED_JSON value = json_pack("{s:[]}", "drafts");
    struct listing listing = {.request = request, .list = json_object_get(value, "drafts")};

    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for drafts");
    TRY(document_trust_now(request, &listing.trust, err));
    TRY(policy_draft_visit(request->permit, ACTION_POLICY_READ, pg, list_one, &listing, err));
    response_json(request, 200, value);
    return SUCCESS;
}

static struct result handle_show(struct request *request, struct pg *pg, struct error *err)
{
    OWNED_POLICY_DRAFT row = {.rows = NULL};
    OWNED_JSON value = NULL;
    struct document_trust trust;

    TRY(policy_draft_find(request->permit, ACTION_POLICY_READ, pg, request->reference, &row, err));
    TRY(document_trust_now(request, &trust, err));
    TRY(describe(request, &row, &trust, 0, &value, err));
    if (json_object_set_new(value, "payload", json_stringn((const char *)row.payload.data, row.payload.length)) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for a draft");
    response_json(request, 200, value);
    return SUCCESS;
}

/* ---- drafting ---- */

/* What can't come into force as things are is neither stored nor signed. `effective_from` may be ahead. */
static struct result check_follows(const struct request *request, const struct draft *draft, int64_t now_ms, struct error *err)
{
    struct keyd_identity identity;
    struct document_pin pinned;

    TRY(keyd_identify(request->gateway->keyd, &identity, err));
    pinned.epoch = identity.policy_epoch;
    memcpy(pinned.digest, identity.policy_digest, sizeof pinned.digest);
    if (draft->document->version <= pinned.epoch)
        return failure(err, ERROR_CONFLICT,
                       "policy epoch %llu is in force; a new set needs a larger one than that: draft it anew",
                       (unsigned long long)pinned.epoch);
    const int64_t when_ms = draft->approval.effective_ms > now_ms ? draft->approval.effective_ms : now_ms;
    return set_check_base(draft->document, &pinned, when_ms, err);
}

static struct result check_draft(const struct request *request, const struct policy_draft *row,
                                 const struct document_trust *trust, int64_t *expires_ms_out, struct error *err)
{
    OWNED_DRAFT draft = {.document = NULL};
    OWNED(policy_set) *before = decider_policy_set(request->gateway->decider);
    OWNED(policy_set) *set = NULL;

    TRY(policy_set_compile(row->payload, &set, err));
    TRY(places_check(set, err)); /* the last signer would learn it else, after all others */
    TRY(policy_set_check_evidence(set, before, err));
    TRY(policy_check_exceptions(request, set, before, trust, err));
    TRY(read_draft(row, trust, &draft, err));
    TRY(check_follows(request, &draft, trust->now_ms, err));
    if (draft.approval.expires_ms - trust->now_ms > (int64_t)SET_APPROVAL_DAYS_MAX * 86400000)
        return failure(err, ERROR_INVALID, "a draft of a policy set waits for at most %d days", SET_APPROVAL_DAYS_MAX);
    *expires_ms_out = draft.approval.expires_ms;
    return SUCCESS;
}

static struct result handle_draft(struct request *request, struct pg *pg, struct error *err)
{
    char name[POLICY_DRAFT_NAME_SIZE], drafter[PRINCIPAL_KEY_SIZE];
    struct policy_draft_change change = {.action = ACTION_POLICY_DRAFT, .name = name, .drafted_by = drafter};
    OWNED(policy_set) *base = decider_policy_set(request->gateway->decider);
    OWNED_JSON value = NULL;
    struct document_trust trust;

    (void)pg;
    policy_draft_name(request->body, name);
    principal_key(request->principal, drafter);
    struct policy_draft row = {.name = name, .drafted_by = drafter, .payload = request->body, .why = change.found.why};
    TRY(document_trust_now(request, &trust, err));
    TRY(check_draft(request, &row, &trust, &change.expires_ms, err));
    TRY(policy_set_foresee(request->gateway->keyd, base, request->body, &change.found, err));
    row.change = change.found.change;
    change.payload = request->body;
    policy_draft_add_init(&change);
    TRY(request_record(request, &change.change, err));
    TRY(describe(request, &row, &trust, 0, &value, err));
    response_json(request, 201, value);
    return SUCCESS;
}

static struct result handle_discard(struct request *request, struct pg *pg, struct error *err)
{
    struct policy_draft_change change = {.action = ACTION_POLICY_DISCARD, .name = request->reference};

    (void)pg;
    policy_draft_end_init(&change);
    TRY(request_record(request, &change.change, err));
    response_empty(request, 204);
    return SUCCESS;
}

/* ---- approving ---- */

/* Persons are compared as elsewhere: an account and a robot of one person are two principals, and one person. */
static struct result check_other(const struct request *request, const uint8_t *signer, const struct draft *draft,
                                 const struct document_trust *trust, struct error *err)
{
    const struct persons asking =
        decider_persons(request->gateway->decider, request->principal, &request->pairs[0].resource.organisation);

    for (size_t i = 0; i < DOCUMENT_APPROVERS_MAX; i++) {
        const uint8_t *point = trust->approvers[i].point;
        struct persons person;
        bool is_signed = false;
        if (!document_approver_counts(&trust->approvers[i], trust->now_ms) || memcmp(point, signer, ECDSA_PUBLIC_SIZE) == 0)
            continue;
        TRY(document_is_signed_by(draft->document, point, &is_signed, err));
        if (!is_signed) continue;
        TRY(document_approver_person(request, point, &person, err));
        if (!persons_are_others(&asking, &person))
            return failure(err, ERROR_CONFLICT, "one person has signed twice: another person signs, too");
    }
    return SUCCESS;
}

/* The signature is the caller's own, by a key that counts, and nobody signs twice. */
static struct result check_signature(const struct request *request, const struct document *signed_now, const struct draft *draft,
                                     const struct document_trust *trust, struct error *err)
{
    const uint8_t *point = NULL;
    bool is_sender = false, is_there = false;

    if (signed_now->signatures[0]->signature_count != 1)
        return failure(err, ERROR_INVALID, "an approval has one signature: your own");
    TRY(document_approver_key(trust, signed_now, &point, err));
    TRY(document_check_sender(request, point, trust, &is_sender, err));
    if (!is_sender) return failure(err, ERROR_DENIED, DOCUMENT_SENT_BY_ANOTHER);
    TRY(document_is_signed_by(draft->document, point, &is_there, err));
    if (is_there) return failure(err, ERROR_CONFLICT, "you have signed this draft already");
    if (document_root_is_one(trust) && memcmp(point, trust->root, ECDSA_PUBLIC_SIZE) == 0) return SUCCESS; /* no person's */
    OWNED(policy_set) *before = decider_policy_set(request->gateway->decider);
    TRY(policy_check_not_asking(request, signed_now, before, err));
    return check_other(request, point, draft, trust, err);
}

/* Several keys of one person would use up the places of an envelope. */
static struct result check_counts(const struct set_signers *before, const struct set_signers *after, struct error *err)
{
    if (after->persons > before->persons || after->others > before->others) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "one person has signed twice: another person signs, too");
}

static struct result join(const struct policy_draft *row, const struct bytes added, struct buffer *envelope, struct error *err)
{
    OWNED(dsse) *before = NULL;
    OWNED(dsse) *new = NULL;

    if (row->envelope.length == 0) return buffer_add(envelope, added.data, added.length, err);
    TRY(dsse_read(row->envelope, POLICY_SET_ENVELOPE_MAX, &before, err));
    TRY(dsse_read(added, POLICY_SET_ENVELOPE_MAX, &new, err));
    return dsse_join(before, new, envelope, err);
}

static struct result answer(struct request *request, const struct policy_draft *row, const struct document_trust *trust,
                            unsigned status, struct error *err)
{
    OWNED_JSON value = NULL;

    TRY(describe(request, row, trust, status, &value, err));
    response_json(request, status == 0 ? 200 : status, value);
    return SUCCESS;
}

static struct result load(struct request *request, const struct policy_draft *row, const struct policy_set *set,
                          const struct document_trust *trust, bool is_other_pair, struct error *err)
{
    const struct policy_loading loading = {row->envelope, set, row->name, is_other_pair};
    unsigned status = 0;

    TRY(policy_load_set(request, &loading, &status, err));
    return answer(request, row, trust, status, err);
}

/* With enough signatures, and not too early, the set comes into force at once. */
static struct result take_signature(struct request *request, const struct policy_draft *row, struct bytes before,
                                    const struct document_trust *trust, struct error *err)
{
    struct policy_draft_change change = {
        .action = ACTION_POLICY_APPROVE, .name = row->name, .before = before, .envelope = row->envelope};
    OWNED(policy_set) *base = decider_policy_set(request->gateway->decider);
    OWNED(policy_set) *set = NULL;
    struct error waits = {0};

    if (policy_set_check(request->gateway->keyd, base, row->envelope, &set, &waits).ok)
        return load(request, row, set, trust, true, err);
    if (waits.kind != ERROR_DENIED) return failure(err, waits.kind, "%s", waits.message);
    policy_draft_sign_init(&change);
    TRY(request_record(request, &change.change, err));
    return answer(request, row, trust, 0, err);
}

static struct result handle_approve(struct request *request, struct pg *pg, struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);
    OWNED_POLICY_DRAFT row = {.rows = NULL};
    OWNED_DRAFT before = {.document = NULL}, after = {.document = NULL};
    const struct signed_body *body = NULL;
    struct document_trust trust;

    TRY(request_envelope(request, &body, err));
    TRY(policy_draft_lookup(lookup_of(pg), request->reference, &row, err));
    if (body->document->kind != DOCUMENT_POLICY_SET || !bytes_equal(document_payload(body->document), row.payload))
        return failure(err, ERROR_INVALID, "the envelope has another document than the draft");
    TRY(document_trust_now(request, &trust, err));
    TRY(document_refresh(request, pg, err));
    TRY(read_draft(&row, &trust, &before, err));
    TRY(check_follows(request, &before, trust.now_ms, err));
    TRY(check_signature(request, body->document, &before, &trust, err));
    TRY(join(&row, body->envelopes[0], &envelope, err));
    struct policy_draft signed_row = row;
    signed_row.envelope = buffer_bytes(&envelope);
    TRY(read_draft(&signed_row, &trust, &after, err));
    TRY(check_counts(&before.signers, &after.signers, err));
    return take_signature(request, &signed_row, row.envelope, &trust, err);
}

struct result target_policy_activate(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return add_target(request, ACTION_POLICY_LOAD);
}

static struct result handle_activate(struct request *request, struct pg *pg, struct error *err)
{
    OWNED(policy_set) *base = decider_policy_set(request->gateway->decider);
    OWNED_POLICY_DRAFT row = {.rows = NULL};
    OWNED(policy_set) *set = NULL;
    struct document_trust trust;

    TRY(policy_draft_lookup(lookup_of(pg), request->reference, &row, err));
    if (row.envelope.length == 0) return failure(err, ERROR_DENIED, "nobody has signed this draft yet");
    TRY(document_trust_now(request, &trust, err));
    TRY(document_refresh(request, pg, err));
    TRY(policy_set_check(request->gateway->keyd, base, row.envelope, &set, err));
    return load(request, &row, set, &trust, false, err);
}

const struct handler handler_policy_drafts = {.handle = handle_list};
const struct handler handler_policy_draft_show = {.handle = handle_show};
const struct handler handler_policy_draft = {.handle = handle_draft};
const struct handler handler_policy_discard = {.handle = handle_discard};
const struct handler handler_policy_approve = {.handle = handle_approve};
const struct handler handler_policy_activate = {.handle = handle_activate};
