/*
 * keyd/policy_pin.h -- remembers who signs policy sets, and which set is in force, so that an older one never is.
 *
 * A set is a DSSE envelope of type POLICY_PIN_TYPE, signed by the pinned approver; its payload is canonical JSON with
 * at least {"digest":"sha256:...","epoch":N}. keyd reads no more of it: the digest covers the rest.
 */
#pragma once

#include "keyd/ledger.h"

#define POLICY_PIN_TYPE "application/vnd.sijil.policy-set.v1+json"

/** Once only; the same key again is no error, another one ERROR_DENIED. ERROR_INVALID for bytes that are no key. */
RESULT approver_pin(struct ledger *ledger, const uint8_t public_key[ECDSA_PUBLIC_SIZE], struct error *err);

struct policy_pin {
    uint64_t epoch;
    uint8_t digest[32];
};
/**
 * ERROR_DENIED: no approver is pinned, another one signed, or the epoch is not larger than the pinned one (the same
 * set again is no error). ERROR_INVALID: not a policy set. The pin is durable on return.
 */
RESULT policy_pin(struct ledger *ledger, struct bytes envelope, struct policy_pin *pin_out, struct error *err);
