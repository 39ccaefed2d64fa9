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
 * Whether sijil-keyd would pin the set of this envelope now, if the log has its event: enough persons have signed it for what it changes of `base`, the
 * set in force (NULL: none), and it replaces that. ERROR_DENIED, ERROR_INVALID. ERROR_UNAVAILABLE: another set than `base` is in force now.
 */
struct policy_set_question {
    struct keyd_client *keyd;
    const struct keyd_identity *identity;
    const struct policy_set *base;
};
RESULT policy_set_judge(const struct policy_set_question *question, struct bytes envelope, struct error *err);
/** The bytes of the set's digest. */
void policy_set_raw_digest(const struct policy_set *set, uint8_t raw_out[32]);
