/*
 * authz/jwk.h -- parses foreign keys, and writes the usable ones again in canonical form.
 *
 * A JWK set (RFC 7517, RFC 7518 section 6) holds keys for many uses. Only RSA keys of 2048 to 4096 bits with the
 * exponent 65537, P-256, P-384 and Ed25519 are used. The library never sees the foreign text, only JSON that we composed from
 * checked numbers.
 */
#pragma once

#include <jansson.h>

#include "authz/jws.h"

#define JWK_TEXT_MAX 2048 /* a modulus of 683 characters, a kid, and member names */

struct jwk {
    bool is_usable; /* for signatures, of a supported kind, and well-formed; else the members below are not set */
    bool lacks_kid; /* it has no kid that tokens could name it by */
    char kid[JWS_KID_SIZE];
    unsigned algorithms;     /* bits of enum jose_algorithm that this key may verify */
    size_t signature_size;   /* size of this key's signatures */
    char text[JWK_TEXT_MAX]; /* public key as canonical JSON */
    uint8_t ed25519[32];     /* the public key, if it is for EdDSA: then our own code verifies with it */
};

/** Parses a set of at most `maximum_bytes`; ERROR_INVALID unless it is {"keys":[...]}. *keys_out is owned by the caller. */
RESULT jwks_read(struct bytes text, size_t maximum_bytes, json_t **keys_out, struct error *err);
/**
 * Parses one member of the set. ERROR_NO_MEMORY only: an unusable key is no error, because sets hold keys for other
 * purposes too.
 */
RESULT jwk_read(const json_t *key, struct jwk *jwk_out, struct error *err);
