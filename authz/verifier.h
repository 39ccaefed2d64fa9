/*
 * authz/verifier.h -- is this signature made by this key? liboauth2 answers, and nothing else is asked of it.
 *
 * Only what passed the gate may come here. One verifier has one key and is never chained to another: chained ones
 * accept issuer A's token for issuer B. liboauth2 keeps caches and says much in its log: both are off.
 */
#pragma once

#include "authz/gate.h"
#include "base/owned.h"

struct verifier;

/**
 * `jwk` is one public key as JSON that we composed ourselves (authz/jwk.h). ERROR_INVALID when the library can't use
 * it, ERROR_NO_MEMORY.
 */
RESULT verifier_new(const char *jwk, struct verifier **verifier_out, struct error *err);

/**
 * ERROR_DENIED unless the signature is right and exp and iat are there and fit the wall clock; with `is_late` a passed
 * exp is no reason, for upload sessions. Thread-safe:
 * liboauth2 does not say whether it is, so a verifier is a few equal ones, each behind its own lock.
 */
RESULT verifier_check(struct verifier *verifier, const struct gate_token *token, bool is_late, struct error *err);

void verifier_free(struct verifier *verifier);
DEFINE_OWNED(verifier);
