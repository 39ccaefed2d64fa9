/*
 * authz/jws.h -- a strict parser of tokens, which runs before any library sees them.
 *
 * cjose 0.6.2.1 aborts on some inputs and parses others leniently. So it receives only a token that this parser
 * accepted: a JWS in compact form (RFC 7515, 7.1) of at most JWS_SIZE_MAX bytes, with three segments in canonical
 * base64url. Header and payload are JSON objects without duplicate members. `alg` is one of five, and the signature has
 * exactly its length. `kid` and `iss` are texts, `typ` is known, and there is no `crit`.
 */
#pragma once

#include <jansson.h>

#include "base/bytes.h"

#define JWS_SIZE_MAX 16384
#define JWS_KID_SIZE 129 /* GitHub's have 36 letters, thumbprints 43 */

/* constant, name, bytes of the signature (0: 256 to 512, that of an RSA key), key type, curve */
#define JOSE_ALGORITHMS(X)                    \
    X(JOSE_RS256, "RS256", 0, "RSA", "")      \
    X(JOSE_PS256, "PS256", 0, "RSA", "")      \
    X(JOSE_ES256, "ES256", 64, "EC", "P-256") \
    X(JOSE_ES384, "ES384", 96, "EC", "P-384") \
    X(JOSE_EDDSA, "EdDSA", 64, "OKP", "Ed25519") /* RFC 8037; RFC 9864 calls it Ed25519, which is read as well */

enum jose_algorithm {
#define X(constant, name, signature, type, curve) constant,
    JOSE_ALGORITHMS(X)
#undef X
        JOSE_ALGORITHM_COUNT
};

enum jws_type {
    JWS_TYPE_JWT,      /* "JWT", or absent */
    JWS_TYPE_ACCESS,   /* "at+jwt" (RFC 9068); both may have "application/" before them, and letters of either case */
    JWS_TYPE_REGISTRY, /* "sijil-reg+jwt": a token of ours */
};

struct jws {
    struct bytes text;   /* a view of the whole token; verifier_check() copies it */
    size_t signature_at; /* where its third segment begins, encoded */
    enum jose_algorithm algorithm;
    enum jws_type type;
    const char *kid, *issuer; /* inside header and payload */
    json_t *header, *payload; /* owned */
};

/** ERROR_INVALID names the broken rule; ERROR_LIMIT for its size; ERROR_NO_MEMORY. `text` must outlive *token_out. */
RESULT jws_parse(struct bytes text, struct jws *token_out, struct error *err);
/**
 * Makes another token that shares header and payload, which are not changed any more. `text` has equal bytes and must
 * outlive *token_out.
 */
void jws_share(const struct jws *token, struct bytes text, struct jws *token_out);
void jws_done(struct jws *token);
#define OWNED_JWS __attribute__((cleanup(jws_done)))

const char *jose_algorithm_name(enum jose_algorithm algorithm);
bool jose_algorithm_find(const char *name, enum jose_algorithm *algorithm_out);
/** A list of names, as the database stores it, as bits of enum jose_algorithm. */
unsigned jose_algorithms_of(const char *names);
