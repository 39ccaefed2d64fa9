/*
 * authz/jwk.h -- reads the keys of strangers, and spells those that may be used anew.
 *
 * A JWK set (RFC 7517, RFC 7518 section 6) holds keys for many uses. Only RSA of 2048 to 4096 bits with the exponent
 * 65537, P-256 and P-384 are taken; the library sees the spelling that we composed from checked numbers, never theirs.
 */
#pragma once

#include <jansson.h>

#include "authz/gate.h"

#define JWK_TEXT_MAX 2048 /* 683 letters of a modulus, a kid, and names */

struct jwk {
    bool is_usable;           /* for signatures, of a kind that is taken, and well-formed; the rest counts only then */
    char kid[GATE_KID_SIZE];
    unsigned algorithms;      /* bits of enum jose_algorithm that this key may verify */
    size_t signature_size;    /* bytes that a signature of this key has */
    char text[JWK_TEXT_MAX];  /* public key as canonical JSON */
};

/** Parses a set of at most `maximum_bytes`; ERROR_INVALID unless it is {"keys":[...]}. *keys_out is owned by the caller. */
RESULT jwks_read(struct bytes text, size_t maximum_bytes, json_t **keys_out, struct error *err);
/** One member of the set. ERROR_NO_MEMORY only: a key that can't be used is no error, sets hold keys for others too. */
RESULT jwk_read(const json_t *key, struct jwk *jwk_out, struct error *err);
