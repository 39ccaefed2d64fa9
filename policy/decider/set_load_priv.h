/* policy/decider/set_load_priv.h -- shared by set_load.c and set_pin.c. */
#pragma once

#include "crypto/ecdsa.h"
#include "crypto/keyd_client.h"
#include "documents/format/document.h"
#include "policy/decider/set_load.h"

/** The key of the approver that sijil-keyd has pinned. NULL: none is pinned yet, so no set is valid. */
RESULT policy_set_approver(const struct keyd_identity *identity, struct ecdsa_key **key_out, struct error *err);
/** The keys that may sign sets now, and how many persons must. */
RESULT policy_set_trust(struct keyd_client *keyd, struct document_trust *trust_out, struct error *err);
/**
 * Whether sijil-keyd would pin the set of this envelope now, if the log has its event: enough persons have signed it, and it replaces the set
 * in force. ERROR_DENIED, ERROR_INVALID.
 */
RESULT policy_set_judge(struct keyd_client *keyd, const struct keyd_identity *identity, struct bytes envelope, struct error *err);
/** The bytes of the set's digest. */
void policy_set_raw_digest(const struct policy_set *set, uint8_t raw_out[32]);
