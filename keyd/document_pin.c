#include "keyd/document_pin.h"

#include <string.h>

#include "audit/format/leaf.h"
#include "audit/format/merkle.h"
#include "crypto/keyd_protocol.h"
#include "documents/format/signing_key.h"

static const uint8_t unset[ECDSA_PUBLIC_SIZE];

static struct result set_approver(const void *context, struct ledger_state *state, struct error *err)
{
    if (memcmp(state->approver, unset, sizeof unset) != 0 && memcmp(state->approver, context, sizeof state->approver) != 0)
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
    struct ledger *ledger;
    struct key_register *keys;
    uint64_t sequence;
    int64_t now_ms;
};

static struct result set_pin(const void *context, struct ledger_state *state, struct error *err)
{
    const struct pinning *pinning = context;
    struct document_pin *pin = pin_of(state, pinning->document->kind);
    struct key_register_note note = {.document = pinning->document, .sequence = pinning->sequence, .before = *pin};

    TRY(document_pin_next(pin, pinning->document, pinning->sequence, pin, err));
    if (pinning->document->kind == DOCUMENT_SIGNING_KEY)
        TRY(signing_key_note(pinning->document, state->approvers, pinning->now_ms, err));
    if (!key_register_has_kind(pinning->document->kind)) return SUCCESS;
    if (ledger_is_broken(pinning->ledger)) /* its file may have another pin than `before` */
        return failure(err, ERROR_UNAVAILABLE, "the ledger could not be written: sijil-keyd starts again");
    note.pin = *pin;
    return key_register_note(pinning->keys, &note, err); /* last, because it is durable before the pin */
}

static struct result pin_checked(struct ledger *ledger, const struct document_pin_request *request, const struct pinning *pinning,
                                 struct error *err)
{
    const struct document *document = pinning->document;
    struct document_trust trust;

    document_trust_read(ledger, pinning->now_ms, &trust);
    TRY(document_check(document, &trust, err));
    TRY(document_check_event(document, request->leaf, request->sequence, err));
    TRY(check_inclusion(ledger, request, err));
    return ledger_change(ledger, set_pin, pinning, err);
}

static void read_pin(struct ledger *ledger, enum document_kind kind, struct document_pin *pin_out)
{
    struct ledger_state state;

    ledger_read(ledger, &state);
    *pin_out = *pin_of(&state, kind);
}

struct result document_pin(struct ledger *ledger, struct key_register *keys, const struct document_pin_request *request,
                           int64_t now_ms, struct document_pin *pin_out, struct error *err)
{
    OWNED(document) *document = NULL;

    _Static_assert(KEYD_LEAF_MAX == LEAF_MAX && KEYD_PROOF_MAX == MERKLE_PROOF_MAX,
                   "a request has room for every entry and every proof");
    TRY(document_read(request->envelopes, request->envelope_count, &document, err));
    const struct pinning pinning = {document, ledger, keys, request->sequence, now_ms};
    TRY(pin_checked(ledger, request, &pinning, err));
    read_pin(ledger, document->kind, pin_out);
    return SUCCESS;
}
