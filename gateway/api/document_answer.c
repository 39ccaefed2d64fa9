/* Signed documents in answers: their description, and who has signed them. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "gateway/api/document_priv.h"
#include "policy/decider/decider.h"

#define SIGNERS_WITH_ROOT 2 /* the holder and the root: for each kind that has drafts */

static const char *state_of(const struct document *document, uint64_t sequence, int64_t now_ms)
{
    if (sequence == 0) return "draft";
    if (document->is_withdrawn || document->is_withdrawn_elsewhere) return "withdrawn";
    if (document->expires_ms != 0 && document->expires_ms <= now_ms) return "expired";
    return document->effective_ms > now_ms ? "to come" : "in force";
}

struct result document_describe(const struct document *document, uint64_t sequence, json_t **value_out, struct error *err)
{
    OWNED_JSON whole = json_deep_copy(document->json);
    OWNED_JSON value = json_pack("{s:s, s:s, s:O}", "name", document->name, "state",
                                 state_of(document, sequence, clock_wall_ms()), "document", whole);

    if (value == NULL || (sequence != 0 && json_object_set_new(value, "event", json_integer((json_int_t)sequence)) != 0))
        return failure(err, ERROR_NO_MEMORY, "no memory for a signing key");
    *value_out = GIVE(value);
    return SUCCESS;
}

struct result document_refresh(const struct request *request, struct pg *pg, struct error *err)
{
    const struct gateway *gateway = request->gateway;
    const struct document_source source = {pg, gateway->keyd, gateway->sequencer};

    return document_view_refresh(gateway->documents, &source, err);
}

struct result document_trust_now(const struct request *request, struct document_trust *trust_out, struct error *err)
{
    struct keyd_documents pinned;

    TRY(keyd_ask_documents(request->gateway->keyd, &pinned, err));
    *trust_out = (struct document_trust){.now_ms = clock_wall_ms()};
    memcpy(trust_out->root, pinned.root, sizeof trust_out->root);
    memcpy(trust_out->approvers, pinned.approvers, sizeof trust_out->approvers);
    return keyd_root_terms(request->gateway->keyd, &trust_out->terms, err);
}

/* The signatures of one draft that count. The row could name other signers, and have envelopes that nobody has signed. */
struct draft_signatures {
    json_t *envelopes, *signers;
};

static struct result note_owner(void *context, const struct pinned_document *pinned, struct error *err)
{
    return signing_key_read(pinned->document, context, err);
}

struct result document_key_owner(const struct request *request, const uint8_t point[ECDSA_PUBLIC_SIZE],
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
static struct result find_signer(const struct document_drafts *drafts, const struct document *envelope,
                                 const struct document_holder *holder, struct signing_key *signer_out, struct error *err)
{
    const struct document_trust *trust = &drafts->trust;
    bool is_signed = false;

    *signer_out = (struct signing_key){.purpose = SIGNING_SIGN};
    (void)snprintf(signer_out->principal, sizeof signer_out->principal, "%s", holder->principal);
    TRY(document_is_signed_by(envelope, holder->point, &is_signed, err));
    if (is_signed) return SUCCESS;
    *signer_out = (struct signing_key){.principal = "root"};
    TRY(document_is_signed_by(envelope, trust->root, &is_signed, err));
    for (size_t i = 0; i < DOCUMENT_APPROVERS_MAX && !is_signed; i++) {
        signer_out->principal[0] = '\0';
        if (!document_approver_counts(&trust->approvers[i], trust->now_ms)) continue;
        TRY(document_is_signed_by(envelope, trust->approvers[i].point, &is_signed, err));
        if (is_signed) TRY(document_key_owner(drafts->request, trust->approvers[i].point, signer_out, err));
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

static struct result add_signature(const struct document_drafts *drafts, struct draft_signatures *signatures,
                                   const char *principal, struct bytes envelope, struct error *err)
{
    const struct persons persons =
        decider_persons_of_key(drafts->request->gateway->decider, principal, &drafts->request->pairs[0].resource.organisation);
    json_t *whole = NULL;

    if (principal[0] == '\0' || has_signed(signatures->signers, principal)) return SUCCESS;
    json_t *signer =
        json_pack("{s:s, s:s*}", "principal", principal, "person", persons_are_one(&persons) ? persons.each[0].key : NULL);
    if (json_array_append_new(signatures->signers, signer) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for a draft");
    TRY(json_read(envelope, envelope.length, &whole, err));
    if (json_array_append_new(signatures->envelopes, whole) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a draft");
}

static struct result gather_signatures(const struct document_drafts *drafts, const struct drafted_document *drafted,
                                       const struct document_holder *holder, struct draft_signatures *signatures,
                                       struct error *err)
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

struct result document_add_signatures(const struct document_drafts *drafts, json_t *value, const struct drafted_document *drafted,
                                      const struct document_holder *holder, struct error *err)
{
    OWNED_JSON envelopes = json_array();
    OWNED_JSON signers = json_array();
    struct draft_signatures signatures = {envelopes, signers};

    if (envelopes == NULL || signers == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a draft");
    TRY(gather_signatures(drafts, drafted, holder, &signatures, err));
    const size_t count = json_array_size(signers), needed = has_signed(signers, "root") && document_root_is_one(&drafts->trust)
                                                                ? SIGNERS_WITH_ROOT
                                                                : holder->needed;
    json_t *missing = json_integer(count < needed ? (json_int_t)(needed - count) : 0);
    if (json_object_set(value, "envelope", json_array_get(envelopes, 0)) == 0 &&
        json_object_set(value, "envelopes", envelopes) == 0 && json_object_set(value, "signed_by", signers) == 0 &&
        json_object_set_new(value, "missing", missing) == 0)
        return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a draft");
}

struct result document_add_envelopes(json_t *value, const struct document_proof *proof, struct error *err)
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

struct shown {
    json_t *value;
    uint64_t sequence;
};

static struct result note_shown(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct shown *shown = context;

    shown->sequence = pinned->sequence;
    return document_describe(pinned->document, pinned->sequence, &shown->value, err);
}

struct result document_show(struct request *request, struct pg *pg, enum action action, enum document_kind kind,
                            json_t **value_out, struct error *err)
{
    const struct resource *where = permit_resource(request->permit, action);
    struct document_proof_query query = {action, where->name, kind, 0};
    OWNED(document_proof) *proof = NULL;
    struct document_scope scope;
    struct shown shown = {0};

    TRY(document_refresh(request, pg, err));
    TRY(document_scope_find(lookup_of(pg), where->name, &scope, err));
    if (kind == DOCUMENT_RESTRICTION) scope.since = 0; /* it counts for the name */
    const struct view_range one = {kind, &scope, request->reference, 1};
    TRY(document_view_find(request->gateway->documents, &one, note_shown, &shown, err));
    OWNED_JSON value = shown.value;
    query.sequence = shown.sequence;
    TRY(document_envelopes(request->permit, pg, &query, &proof, err));
    TRY(document_add_envelopes(value, proof, err));
    *value_out = GIVE(value);
    return SUCCESS;
}
