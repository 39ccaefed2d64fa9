/*
 * policy/set_load_priv.h -- what recording and pinning a policy set share.
 */
#pragma once

#include "crypto/ecdsa.h"
#include "crypto/keyd_client.h"
#include "policy/set_load.h"

/** Who signs policy sets, as keyd has pinned it. NULL: nobody is pinned yet, so no set counts. */
RESULT policy_set_approver(const struct keyd_identity *identity, struct ecdsa_key **key_out, struct error *err);
/** "sha256:..." that the set has checked -> its bytes. */
void policy_set_raw_digest(const struct policy_set *set, uint8_t raw_out[32]);
