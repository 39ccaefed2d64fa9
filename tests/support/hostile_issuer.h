/*
 * tests/support/hostile_issuer.h -- an issuer that signs any text that a test gives it.
 *
 * Attackers may send tokens that no real issuer makes. Any failure fails the test at once, so no function here returns
 * an error. Texts are on the heap; the caller frees them with free().
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"

struct hostile_issuer;

enum hostile_key { HOSTILE_P256, HOSTILE_P384, HOSTILE_RSA, HOSTILE_ED25519 };

struct hostile_issuer *hostile_issuer_new(enum hostile_key kind);
/** {"keys":[one key]} with this kid; `alg` may be NULL. */
char *hostile_jwks(const struct hostile_issuer *issuer, const char *kid, const char *alg);
/** The public point of a P-256 key, as keyd names its token key. */
void hostile_point(const struct hostile_issuer *issuer, uint8_t point_out[65]);

/** Signs the two texts correctly for `alg` (RS256, PS256, ES256, ES384, EdDSA, or HS256 with the public PEM as the secret). */
char *hostile_token(const struct hostile_issuer *issuer, const char *alg, const char *header, const char *payload);
/** The same with segments that are encoded already: for payloads that are not text. */
char *hostile_sign(const struct hostile_issuer *issuer, const char *alg, const char *signed_part);
/** base64url without padding. */
char *hostile_encode(struct bytes bytes);

void hostile_issuer_free(struct hostile_issuer *issuer);
DEFINE_OWNED(hostile_issuer);
