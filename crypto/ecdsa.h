/*
 * crypto/ecdsa.h -- ECDSA on P-256 with SHA-256 (FIPS 186-4; ES256 in RFC 7518, 3.4).
 *
 * A key is a pair, or the public half alone; a function that needs the private half asserts that it is there. The private half may be
 * elsewhere, for example in a token: such a key signs, and can't be read or saved. Signatures have two forms: r || s for JOSE, and ASN.1 DER
 * for DSSE and certificates. Several threads may use a key whose private half is here.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"
#include "crypto/secret.h"

#define ECDSA_PUBLIC_SIZE     65 /* 0x04, x, y: the uncompressed point of SEC 1 */
#define ECDSA_SCALAR_SIZE     32
#define ECDSA_DIGEST_SIZE     32
#define ECDSA_JOSE_SIZE       64
#define ECDSA_DER_MAX         72
#define ECDSA_THUMBPRINT_SIZE 44 /* 43 characters of base64url and '\0' */
#define ECDSA_PEM_MAX         4096

struct ecdsa_key;

/** Makes a new pair. */
RESULT ecdsa_key_new(struct ecdsa_key **key_out, struct error *err);
/** ERROR_INVALID for a scalar out of range. */
RESULT ecdsa_key_from_scalar(const struct secret *scalar, struct ecdsa_key **key_out, struct error *err);
/** The public half alone. ERROR_INVALID for bytes that are not a point of the curve. */
RESULT ecdsa_key_from_public(const uint8_t point[ECDSA_PUBLIC_SIZE], struct ecdsa_key **key_out, struct error *err);
/** Reads an unencrypted private key (PKCS#8 or SEC 1) or a public key in PEM. ERROR_INVALID unless it is P-256. */
RESULT ecdsa_key_from_pem(struct bytes pem, struct ecdsa_key **key_out, struct error *err);
/** Reads a file of at most ECDSA_PEM_MAX bytes. */
RESULT ecdsa_key_load(const char *path, struct ecdsa_key **key_out, struct error *err);
/** Writes the pair as PKCS#8 PEM to a new file of mode 0600, durably. ERROR_CONFLICT if the file exists. */
RESULT ecdsa_key_save(const struct ecdsa_key *key, const char *path, struct error *err);

/** A private half that is elsewhere. */
struct ecdsa_remote {
    void *context;
    /** Signs a SHA-256 digest: r || s. */
    struct result (*sign)(void *context, const uint8_t digest[ECDSA_DIGEST_SIZE], uint8_t signature_out[ECDSA_JOSE_SIZE],
                          struct error *err);
    void (*free)(void *context);
};
/**
 * A pair whose private half `remote` uses. Takes remote->context over if it succeeds. Each signature is verified with the public half
 * before it is returned. ERROR_INVALID for bytes that are not a point of the curve.
 */
RESULT ecdsa_key_from_remote(const uint8_t point[ECDSA_PUBLIC_SIZE], const struct ecdsa_remote *remote,
                             struct ecdsa_key **key_out, struct error *err);

/** Whether it can sign. */
bool ecdsa_key_is_private(const struct ecdsa_key *key);
RESULT ecdsa_key_scalar(const struct ecdsa_key *key, struct secret **scalar_out, struct error *err);
void ecdsa_key_public(const struct ecdsa_key *key, uint8_t point_out[ECDSA_PUBLIC_SIZE]);
/** The public half as SubjectPublicKeyInfo PEM. */
RESULT ecdsa_key_public_pem(const struct ecdsa_key *key, struct buffer *pem, struct error *err);

/** ERROR_CORRUPT: the private half is elsewhere, and its signature does not fit the public half. Other errors of that private half. */
RESULT ecdsa_sign_jose(const struct ecdsa_key *key, struct bytes message, uint8_t signature_out[ECDSA_JOSE_SIZE],
                       struct error *err);
/** Appends the DER signature, at most ECDSA_DER_MAX bytes. */
RESULT ecdsa_sign_der(const struct ecdsa_key *key, struct bytes message, struct buffer *signature, struct error *err);
/** False also for a signature of the wrong length or form. */
bool ecdsa_verify_jose(const struct ecdsa_key *key, struct bytes message, struct bytes signature);
bool ecdsa_verify_der(const struct ecdsa_key *key, struct bytes message, struct bytes signature);

#define ECDSA_POINT_TEXT_SIZE 88 /* base64url of a point, and '\0' */
/** base64url of a point. */
RESULT ecdsa_point_text(const uint8_t point[ECDSA_PUBLIC_SIZE], char text_out[ECDSA_POINT_TEXT_SIZE], struct error *err);
/** The thumbprint of RFC 7638. */
void ecdsa_thumbprint(const uint8_t point[ECDSA_PUBLIC_SIZE], char thumbprint_out[ECDSA_THUMBPRINT_SIZE]);
/** Appends a public JWK (RFC 7517): {"alg":"ES256","crv":"P-256","kid":thumbprint,"kty":"EC","use":"sig","x":..,"y":..}. */
RESULT ecdsa_jwk(const uint8_t point[ECDSA_PUBLIC_SIZE], struct buffer *jwk, struct error *err);

void ecdsa_key_free(struct ecdsa_key *key);
DEFINE_OWNED(ecdsa_key);
