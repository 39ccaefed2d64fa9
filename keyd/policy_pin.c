#include "keyd/policy_pin.h"

#include <string.h>

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

struct result policy_pin(struct ledger *ledger, struct bytes envelope, struct policy_pin *pin_out,
                         struct error *err)
{
    OWNED(dsse) *dsse = NULL;
    struct policy_pin pin;

    TRY(dsse_read(envelope, KEYD_POLICY_MAX, &dsse, err));
    TRY(check_signer(ledger, dsse, err));
    TRY(read_payload(buffer_bytes(&dsse->payload), &pin, err));
    TRY(ledger_change(ledger, set_policy, &pin, err));
    *pin_out = pin;
    return SUCCESS;
}
