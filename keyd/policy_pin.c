#include "keyd/policy_pin.h"

#include <string.h>

#include "audit/format/leaf.h"
#include "audit/format/policy_load.h"
#include "base/json.h"
#include "crypto/digest.h"
#include "crypto/dsse.h"
#include "crypto/keyd_protocol.h"

static const uint8_t unset[ECDSA_PUBLIC_SIZE];

static struct result set_approver(const void *context, struct ledger_state *state, struct error *err)
{
    if (memcmp(state->approver, unset, sizeof unset) != 0 &&
        memcmp(state->approver, context, sizeof state->approver) != 0)
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

static struct result set_policy(const void *context, struct ledger_state *state, struct error *err)
{
    const struct policy_pin *pin = context;
    const bool is_same = pin->epoch == state->policy_epoch &&
                         memcmp(pin->digest, state->policy_digest, sizeof pin->digest) == 0;

    if (pin->epoch <= state->policy_epoch && !is_same)
        return failure(err, ERROR_DENIED, "policy epoch %llu is pinned; %llu may not replace it",
                       (unsigned long long)state->policy_epoch, (unsigned long long)pin->epoch);
    state->policy_epoch = pin->epoch;
    memcpy(state->policy_digest, pin->digest, sizeof pin->digest);
    return SUCCESS;
}

static struct result check_signer(struct ledger *ledger, const struct dsse *dsse, struct error *err)
{
    OWNED(ecdsa_key) *approver = NULL;
    struct ledger_state state;

    if (strcmp(dsse->payload_type, POLICY_PIN_TYPE) != 0)
        return failure(err, ERROR_INVALID, "the signed document is not a policy set");
    ledger_read(ledger, &state);
    if (memcmp(state.approver, unset, sizeof unset) == 0)
        return failure(err, ERROR_DENIED, "no approver of policy sets is pinned yet");
    TRY(ecdsa_key_from_public(state.approver, &approver, err));
    return dsse_check_signer(dsse, approver, err);
}

static struct result read_payload(struct bytes payload, struct policy_pin *pin_out, struct error *err)
{
    struct buffer OWNED_BUFFER canonical = BUFFER(KEYD_POLICY_MAX);
    OWNED_JSON root = NULL;
    struct digest digest;
    int64_t epoch = 0;

    TRY(json_read(payload, KEYD_POLICY_MAX, &root, err));
    TRY(json_write_canonical(&canonical, root, err));
    if (!bytes_equal(buffer_bytes(&canonical), payload))
        return failure(err, ERROR_INVALID, "the policy set is not canonical JSON");
    const char *text = json_text_of(root, "digest");
    if (!json_integer_of(root, "epoch", &epoch) || epoch < 1 || text == NULL)
        return failure(err, ERROR_INVALID, "a policy set needs \"digest\" and an \"epoch\" of at least 1");
    TRY(digest_parse(bytes_of_text(text), &digest, err));
    if (digest.algorithm != DIGEST_SHA256)
        return failure(err, ERROR_INVALID, "the digest of a policy set must be SHA-256");
    pin_out->epoch = (uint64_t)epoch;
    memcpy(pin_out->digest, digest.bytes, sizeof pin_out->digest);
    return SUCCESS;
}

/* An event that was denied, that failed, or that came to no change names no set in this way. */
static struct result check_leaf(const struct policy_pin_request *request, const struct policy_pin *pin, struct error *err)
{
    char resource[POLICY_LOAD_DETAIL_SIZE + 1] = "#"; /* of the registry itself: it has no name */
    struct leaf leaf;

    TRY(leaf_read(request->leaf, &leaf, err));
    policy_load_detail(request->envelope, pin->epoch, pin->digest, resource + 1);
    if (leaf.sequence == request->sequence && leaf.target_count == 1 && strcmp(leaf.outcome, POLICY_LOAD_OUTCOME) == 0 &&
        strcmp(leaf.targets[0].action, POLICY_LOAD_ACTION) == 0 && strcmp(leaf.targets[0].resource, resource) == 0)
        return SUCCESS;
    return failure(err, ERROR_NOT_FOUND, "entry %llu of the log is not the event that loaded policy epoch %llu",
                   (unsigned long long)request->sequence, (unsigned long long)pin->epoch);
}

/* The tree may grow meanwhile, and what stands in it stays there. */
static struct result check_inclusion(struct ledger *ledger, const struct policy_pin_request *request, struct error *err)
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

struct result policy_pin(struct ledger *ledger, const struct policy_pin_request *request, struct policy_pin *pin_out,
                         struct error *err)
{
    OWNED(dsse) *dsse = NULL;
    struct policy_pin pin;

    _Static_assert(KEYD_LEAF_MAX == LEAF_MAX && KEYD_PROOF_MAX == MERKLE_PROOF_MAX, "every entry and every proof can be sent");
    TRY(dsse_read(request->envelope, KEYD_POLICY_MAX, &dsse, err));
    TRY(check_signer(ledger, dsse, err));
    TRY(read_payload(buffer_bytes(&dsse->payload), &pin, err));
    TRY(check_leaf(request, &pin, err));
    TRY(check_inclusion(ledger, request, err));
    TRY(ledger_change(ledger, set_policy, &pin, err));
    *pin_out = pin;
    return SUCCESS;
}
