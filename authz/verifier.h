/*
 * authz/verifier.h -- checks a signature with one key. This is the only use of liboauth2, which has no EdDSA.
 *
 * Accepts only tokens from jws_parse(). A verifier has one key and is never chained to another: a chain would accept
 * issuer A's token for issuer B. The caches and the log of liboauth2 are off.
 */
#pragma once

#include "authz/jws.h"
#include "base/owned.h"

struct verifier;

/** `jwk` is one public key as JSON that we composed (authz/jwk.h). ERROR_INVALID if the library can't use it; ERROR_NO_MEMORY. */
RESULT verifier_new(const char *jwk, struct verifier **verifier_out, struct error *err);

/** A verifier of EdDSA (RFC 8037) with this public key: our own code, without liboauth2. ERROR_NO_MEMORY. */
RESULT verifier_new_ed25519(const uint8_t public_key[32], struct verifier **verifier_out, struct error *err);

/**
 * ERROR_DENIED unless the signature is right, and exp and iat exist and fit the wall clock; the message says which of them is
 * wrong. With `is_late` a passed exp is accepted, for upload sessions. Thread-safe. liboauth2 does not promise to be thread-safe,
 * so a verifier has a few equal verifiers of liboauth2, each with a lock.
 */
RESULT verifier_check(struct verifier *verifier, const struct jws *token, bool is_late, struct error *err);

void verifier_free(struct verifier *verifier);
DEFINE_OWNED(verifier);
