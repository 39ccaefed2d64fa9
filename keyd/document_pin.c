#include "keyd/document_pin.h"

#include <string.h>

#include "audit/format/leaf.h"
#include "audit/format/merkle.h"
#include "crypto/digest.h"
#include "crypto/keyd_protocol.h"
#include "documents/format/break_glass.h"
#include "documents/format/officers.h"
#include "documents/format/set_approval.h"
#include "documents/format/signing_key.h"

static struct result set_approver(const void *context, struct ledger_state *state, struct error *err)
{
    if (ledger_has_approver(state) && memcmp(state->approver, context, sizeof state->approver) != 0)
        return failure(err, ERROR_DENIED, "another approver is pinned already; only the recovery ceremony changes it");
    memcpy(state->approver, context, sizeof state->approver);
    return SUCCESS;
}

struct result approver_pin(struct ledger *ledger, const uint8_t public_key[ECDSA_PUBLIC_SIZE], struct error *err)
{
    OWNED(ecdsa_key) *key = NULL;

    TRY(ecdsa_key_from_public(public_key, &key, err));
    return ledger_change(ledger, set_approver, public_key, err);
}

void document_trust_read(struct ledger *ledger, int64_t now_ms, struct document_trust *trust_out)
{
    struct ledger_state state;

    ledger_read(ledger, &state);
    *trust_out = (struct document_trust){.now_ms = now_ms};
    memcpy(trust_out->root, state.approver, sizeof trust_out->root);
    memcpy(trust_out->approvers, state.approvers, sizeof trust_out->approvers);
    trust_out->terms = state.terms;
}

/* The tree may have grown since the pin; its entries stay in it. */
static struct result check_inclusion(struct ledger *ledger, const struct document_pin_request *request, struct error *err)
{
    struct merkle_proof proof = {.count = request->proof_count};
    struct merkle_hash hash, root;
    struct ledger_state state;

    ledger_read(ledger, &state);
    if (request->size != state.log_size)
        return failure(err, ERROR_CONFLICT, "the last checkpoint has size %llu: prove from there",
                       (unsigned long long)state.log_size);
    for (size_t i = 0; i < proof.count; i++) memcpy(proof.hashes[i].bytes, request->proof[i], MERKLE_HASH_SIZE);
    memcpy(root.bytes, state.log_root, sizeof root.bytes);
    merkle_leaf_hash(request->leaf, &hash);
    if (merkle_verify_inclusion(request->sequence, request->size, &hash, &proof, &root)) return SUCCESS;
    return failure(err, ERROR_NOT_FOUND, "entry %llu is not in the log of %llu entries that was signed",
                   (unsigned long long)request->sequence, (unsigned long long)request->size);
}

static struct document_pin *pin_of(struct ledger_state *state, enum document_kind kind)
{
    return &state->pins[document_kind(kind)->number - 1];
}

/* A document that is being pinned. */
struct pinning {
    const struct document *document;
    const struct document_place *place;
    struct bytes base; /* of a policy set: the one in force; of a restriction: points of keys */
    uint64_t sequence;
    int64_t now_ms;
    bool is_approved;        /* by the root or an approver */
    struct root_terms terms; /* with which its signatures were counted */
    bool is_compared;        /* with the set of `before` */
    struct document_pin before;
};

/* No refusal of a policy set passes with time: the root has signed it or not, and a newer set is in force or not. */
static uint64_t *asked_of(struct ledger_state *state, enum document_kind kind)
{
    return kind == DOCUMENT_POLICY_SET ? NULL : &state->asked[document_kind(kind)->number - 1];
}

static void note_asked(struct ledger_state *state, const struct pinning *pinning)
{
    uint64_t *asked = asked_of(state, pinning->document->kind);

    if (asked != NULL && *asked < pinning->sequence) *asked = pinning->sequence;
}

/* An event is asked for once, so a refused document does not come into force when the reason of the refusal has passed. */
static struct result check_not_asked(struct ledger_state *state, const struct pinning *pinning, struct error *err)
{
    const uint64_t *asked = asked_of(state, pinning->document->kind);

    if (asked == NULL || pinning->sequence > *asked ||
        pinning->sequence == pin_of(state, pinning->document->kind)->epoch) /* the pinned document again */
        return SUCCESS;
    return failure(
        err, ERROR_DENIED,
        "event %llu was refused before, or passed over when event %llu was asked for: that is final, so sign and record "
        "the document anew",
        (unsigned long long)pinning->sequence, (unsigned long long)*asked);
}

static bool is_same_pin(const struct document_pin *one, const struct document_pin *other)
{
    return one->epoch == other->epoch && memcmp(one->digest, other->digest, sizeof one->digest) == 0;
}

/* With the ledger's lock, so neither the set that is replaced nor the numbers of persons change meanwhile. */
static struct result follow_set(const struct pinning *pinning, struct ledger_state *state, struct error *err)
{
    struct document_pin *pin = pin_of(state, DOCUMENT_POLICY_SET);
    struct root_terms terms;

    if (pin->epoch == pinning->document->version)
        return SUCCESS; /* it was pinned before: document_pin_next() compares the digest */
    if (!set_terms_are_same(&state->terms, &pinning->terms))
        return failure(err, ERROR_CONFLICT, "the numbers of persons that must sign have just changed: try again");
    if (pinning->is_compared && !is_same_pin(&pinning->before, pin))
        return failure(err, ERROR_CONFLICT, "another policy set has just come into force: try again");
    TRY(set_check_base(pinning->document, pin, pinning->now_ms, err));
    TRY(set_terms_read(pinning->document->json, &state->terms, &terms, err));
    if (!set_terms_are_same(&state->terms, &terms)) state->terms = terms;
    return SUCCESS;
}

/* Durable before the pin: an id that is noted in vain makes more persons sign, and never fewer. */
static struct result note_ids(const struct pinning *pinning, struct error *err)
{
    struct keyd_policy_ids ids;

    if (pinning->place->ids == NULL) return SUCCESS;
    set_policy_ids(pinning->document, &ids);
    return policy_ids_note(pinning->place->ids, &ids, pinning->document->version, err);
}

static struct result note_set(const struct pinning *pinning, struct error *err)
{
    TRY(note_ids(pinning, err));
    return pinning->place->regions == NULL ? SUCCESS : region_keyds_note(pinning->place->regions, pinning->document, err);
}

static struct result note_officer(const struct pinning *pinning, const struct key_register_note *of, struct error *err)
{
    const struct organisation_officers_note note = {pinning->document, of->before, of->pin, pinning->now_ms};

    if (pinning->document->kind != DOCUMENT_OFFICERS || pinning->place->officers == NULL) return SUCCESS;
    return organisation_officers_note(pinning->place->officers, &note, err);
}

static struct result note_restriction(const struct pinning *pinning, const struct key_register_note *of, struct error *err)
{
    const struct organisation_restrictions_note note = {pinning->document, of->before, of->pin};

    if (pinning->document->kind != DOCUMENT_RESTRICTION || pinning->place->restrictions == NULL) return SUCCESS;
    return organisation_restrictions_note(pinning->place->restrictions, &note, err);
}

static struct result set_pin(const void *context, struct ledger_state *state, struct error *err)
{
    const struct pinning *pinning = context;
    struct document_pin *pin = pin_of(state, pinning->document->kind);
    struct key_register_note note = {.document = pinning->document,
                                     .sequence = pinning->sequence,
                                     .now_ms = pinning->now_ms,
                                     .is_approved = pinning->is_approved,
                                     .before = *pin};

    TRY(check_not_asked(state, pinning, err));
    if (pinning->document->kind == DOCUMENT_POLICY_SET) TRY(follow_set(pinning, state, err));
    TRY(document_pin_next(pin, pinning->document, pinning->sequence, pin, err));
    note_asked(state, pinning);
    if (pinning->document->kind == DOCUMENT_POLICY_SET) return note_set(pinning, err);
    if (pinning->document->kind == DOCUMENT_SIGNING_KEY)
        TRY(signing_key_note(pinning->document, state->approvers, pinning->now_ms, err));
    if (!key_register_has_kind(pinning->document->kind)) return SUCCESS;
    if (ledger_is_broken(pinning->place->ledger)) /* its file may have another pin than `before` */
        return failure(err, ERROR_UNAVAILABLE, "the ledger could not be written: sijil-keyd starts again");
    note.pin = *pin;
    const struct replacement_naming naming = {pinning->place->keys, pinning->document, note.before, note.pin, pinning->now_ms};
    const bool names = pinning->document->kind == DOCUMENT_OFFICERS || pinning->document->kind == DOCUMENT_BREAK_GLASS;
    if (names) TRY(replacements_try(pinning->place->replacements, &naming, err));
    TRY(key_register_note(pinning->place->keys, &note, err)); /* last, because it is durable before the pin */
    if (names) TRY(replacements_name(pinning->place->replacements, &naming, err)); /* of what the register has let in */
    TRY(note_restriction(pinning, &note, err));
    return note_officer(pinning, &note, err);
}

static struct result set_asked(const void *context, struct ledger_state *state, struct error *err)
{
    (void)err;
    note_asked(state, context);
    return SUCCESS;
}

static bool is_refusal(enum error_kind kind)
{
    return kind == ERROR_DENIED || kind == ERROR_INVALID || kind == ERROR_LIMIT || kind == ERROR_NOT_FOUND;
}

/* The refusal is durable before the gateway hears of it. */
static struct result keep_refusal(const struct pinning *pinning, struct error *err)
{
    struct ledger_state state;

    ledger_read(pinning->place->ledger, &state);
    const uint64_t *asked = asked_of(&state, pinning->document->kind);
    return asked == NULL || *asked >= pinning->sequence ? SUCCESS
                                                        : ledger_change(pinning->place->ledger, set_asked, pinning, err);
}

/* What the gateway says of the holder's key counts for nothing: its owner is in the register. */
static struct result check_glass(const struct pinning *pinning, struct error *err)
{
    uint8_t owner[DOCUMENT_DIGEST_SIZE];
    char thumbprint[ECDSA_THUMBPRINT_SIZE];
    struct break_glass glass;

    TRY(break_glass_read(pinning->document, &glass, err));
    if (pinning->document->is_withdrawn) return SUCCESS;
    sha256_of(bytes_of_text(glass.principal), owner);
    ecdsa_thumbprint(glass.point, thumbprint);
    return key_register_check_holder(pinning->place->keys, &(struct key_register_holder){thumbprint, owner, pinning->now_ms},
                                     err);
}

/* Its signers may have left since, or have become too few. */
static bool is_set_in_force(const struct pinning *pinning)
{
    struct ledger_state state;

    if (pinning->document->kind != DOCUMENT_POLICY_SET) return false;
    ledger_read(pinning->place->ledger, &state);
    return state.pins[0].epoch == pinning->document->version &&
           memcmp(state.pins[0].digest, pinning->document->digest, DOCUMENT_DIGEST_SIZE) == 0;
}

/* An officer has an enrolled key of its own: what names another one's key, or a withdrawn one, makes nobody an officer. */
static struct result check_officer(const struct pinning *pinning, struct error *err)
{
    uint8_t owner[DOCUMENT_DIGEST_SIZE];
    struct officer officer;

    if (pinning->document->is_withdrawn) return SUCCESS;
    TRY(officer_read(pinning->document, &officer, err));
    sha256_of(bytes_of_text(officer.principal), owner);
    return key_register_check_holder(pinning->place->keys, &(struct key_register_holder){officer.key, owner, pinning->now_ms},
                                     err);
}

/* What the set changes counts, and the gateway's word for that does not: sijil-keyd compares it with the set that it has pinned. */
static struct result judge(struct pinning *pinning, struct document_trust *trust, struct error *err)
{
    struct set_judging judging = {.check = pinning->place->check_set, .base = pinning->base};
    struct keyd_policy_ids ids;
    struct ledger_state state;

    if (pinning->document->kind != DOCUMENT_POLICY_SET) return SUCCESS;
    ledger_read(pinning->place->ledger, &state);
    judging.pinned = pinning->before = state.pins[0];
    if (pinning->place->ids != NULL) {
        set_policy_ids(pinning->document, &ids);
        judging.unused = policy_ids_unused(pinning->place->ids, &ids);
    }
    return set_judge(&judging, pinning->document, trust, &pinning->is_compared, err);
}

static struct result check_signatures(struct pinning *pinning, struct document_trust *trust, struct error *err)
{
    if (is_set_in_force(pinning)) return SUCCESS;
    TRY(judge(pinning, trust, err));
    return document_check(pinning->document, trust, err);
}

static struct result check_key(struct pinning *pinning, const struct document_trust *trust, struct error *err)
{
    const struct replacement_place held = {pinning->place->replacements, pinning->place->ledger, pinning->place->keys};
    bool by_old = false;

    TRY(signing_key_is_approved(pinning->document, trust, &pinning->is_approved, err));
    TRY(replacements_check(&held, pinning->document, pinning->now_ms, &by_old, err));
    pinning->is_approved = pinning->is_approved || by_old; /* an approver has let it wait, so it may take a place for ever */
    return SUCCESS;
}

/* Its organisation's officers sign a restriction, and nobody else. Of an id that was pinned before, a new version counts as a loosening, as its end does. */
static struct result check_restriction(const struct pinning *pinning, struct error *err)
{
    const struct document *document = pinning->document;
    const struct organisation_officers_query query = {pinning->place->keys, document->scope, pinning->base, pinning->now_ms};
    struct restriction_officers officers;
    uint8_t owner[DOCUMENT_DIGEST_SIZE];
    struct error none = {0};

    if (pinning->place->officers == NULL) return failure(err, ERROR_DENIED, "no officer of an organisation is known");
    key_register_owner(document, owner);
    const struct key_register_holder any = {NULL, owner, pinning->now_ms};
    const bool is_same = document->version == 1 && /* the ledger lacked it when the power failed, and the register had it */
                         key_register_check_enrolment(pinning->place->keys, document, pinning->sequence, &none).ok;
    const bool is_first = is_same || !key_register_check_holder(pinning->place->keys, &any, &none).ok;
    organisation_officers_find(pinning->place->officers, &query, &officers);
    return restriction_check_signers(document, &officers, is_first, err);
}

static struct result pin_proven(struct pinning *pinning, struct error *err)
{
    struct document_trust trust;

    document_trust_read(pinning->place->ledger, pinning->now_ms, &trust);
    pinning->terms = trust.terms;
    TRY(check_signatures(pinning, &trust, err));
    pinning->is_approved = true; /* no other kind can be enrolled or withdrawn without approvers */
    if (pinning->document->kind == DOCUMENT_SIGNING_KEY) TRY(check_key(pinning, &trust, err));
    if (pinning->document->kind == DOCUMENT_BREAK_GLASS) TRY(check_glass(pinning, err));
    if (pinning->document->kind == DOCUMENT_OFFICERS) TRY(check_officer(pinning, err));
    if (pinning->document->kind == DOCUMENT_RESTRICTION) TRY(check_restriction(pinning, err));
    return ledger_change(pinning->place->ledger, set_pin, pinning, err);
}

/* The proof comes first: only events of the signed log count as asked for. */
static struct result pin_checked(const struct document_pin_request *request, struct pinning *pinning, struct error *err)
{
    struct error refused = {0};

    TRY(document_check_event(pinning->document, request->leaf, request->sequence, err));
    TRY(check_inclusion(pinning->place->ledger, request, err));
    if (pin_proven(pinning, &refused).ok) return SUCCESS;
    if (is_refusal(refused.kind)) TRY(keep_refusal(pinning, err));
    return failure(err, refused.kind, "%s", refused.message);
}

static void read_pin(struct ledger *ledger, enum document_kind kind, struct document_pin *pin_out)
{
    struct ledger_state state;

    ledger_read(ledger, &state);
    *pin_out = *pin_of(&state, kind);
}

struct result document_pin(const struct document_place *place, const struct document_pin_request *request, int64_t now_ms,
                           struct document_pin *pin_out, struct error *err)
{
    OWNED(document) *document = NULL;

    _Static_assert(KEYD_LEAF_MAX == LEAF_MAX && KEYD_PROOF_MAX == MERKLE_PROOF_MAX,
                   "a request has room for every entry and every proof");
    TRY(document_read(request->envelopes, request->envelope_count, &document, err));
    struct pinning pinning = {
        .document = document, .place = place, .base = request->base, .sequence = request->sequence, .now_ms = now_ms};
    TRY(pin_checked(request, &pinning, err));
    if (document->kind == DOCUMENT_SIGNING_KEY) TRY(replacements_end(place->replacements, document->name, err));
    read_pin(place->ledger, document->kind, pin_out);
    return SUCCESS;
}

struct result document_replace(const struct replacement_place *place, const struct document_pin_request *request, int64_t now_ms,
                               int64_t *counts_ms_out, struct error *err)
{
    const struct document_entry entry = {request->leaf, request->sequence};
    OWNED(document) *document = NULL;
    struct document_trust trust;

    TRY(document_read(request->envelopes, request->envelope_count, &document, err));
    if (document->kind != DOCUMENT_SIGNING_KEY || document->is_withdrawn)
        return failure(err, ERROR_INVALID, "only the enrolment of a signing key waits");
    TRY(document_check_event_of(document, DOCUMENT_REPLACES, &entry, err));
    TRY(check_inclusion(place->ledger, request, err));
    document_trust_read(place->ledger, now_ms, &trust);
    TRY(document_check(document, &trust, err));
    return replacements_begin(place, document, now_ms, counts_ms_out, err);
}
