/* policy/set_load_priv.h -- shared by set_load.c and set_pin.c. */
#pragma once

#include "crypto/ecdsa.h"
#include "crypto/keyd_client.h"
#include "policy/set_load.h"

/** The key of the approver that sijil-keyd has pinned. NULL: none is pinned yet, so no set is valid. */
RESULT policy_set_approver(const struct keyd_identity *identity, struct ecdsa_key **key_out, struct error *err);
/** The bytes of the set's digest. */
void policy_set_raw_digest(const struct policy_set *set, uint8_t raw_out[32]);
