/*
 * keyd/policy_pin.h -- remembers who signs policy sets, and which set is in force, so that an older one never is.
 *
 * A set is a DSSE envelope of type POLICY_PIN_TYPE, signed by the pinned approver; its payload is canonical JSON with
 * at least {"digest":"sha256:...","epoch":N}. keyd reads no more of it: the digest covers the rest.
 *
 * That the approver signed a set does not bring it into force: somebody must have loaded it, and the log must say so. So a pin
 * comes with the entry of the event policy.load that names this very envelope, and its inclusion proof in the log as keyd has
 * signed it last. Neither the gateway nor the database is believed.
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
 * set again is no error). ERROR_INVALID: not a policy set. ERROR_NOT_FOUND: the log that was signed has no such event.
 * ERROR_CONFLICT: the proof leads to another size than that of the last checkpoint. The pin is durable on return.
 */
RESULT policy_pin(struct ledger *ledger, const struct policy_pin_request *request, struct policy_pin *pin_out,
                  struct error *err);
