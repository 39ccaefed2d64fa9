/*
 * authz/gate.h -- what a token must look like before any library may see it.
 *
 * cjose 0.6.2.1 aborts on some inputs and reads others leniently, so nothing from outside reaches it but what passed
 * here: a JWS in compact form (RFC 7515, 7.1) of at most GATE_TOKEN_MAX bytes, three segments in the one canonical
 * spelling of base64url, header and payload JSON objects without duplicate members, `alg` one of four, a signature
 * of exactly its length, `kid` and `iss` texts, no `crit`, a known `typ`.
 */
#pragma once

#include <jansson.h>

#include "base/bytes.h"

#define GATE_TOKEN_MAX 16384
#define GATE_KID_SIZE  129 /* GitHub's have 36 letters, thumbprints 43 */

/* constant, name, bytes of the signature (0: 256 to 512, that of an RSA key), key type, curve */
#define JOSE_ALGORITHMS(X)                   \
    X(JOSE_RS256, "RS256", 0, "RSA", "")     \
    X(JOSE_PS256, "PS256", 0, "RSA", "")     \
    X(JOSE_ES256, "ES256", 64, "EC", "P-256") \
    X(JOSE_ES384, "ES384", 96, "EC", "P-384")

enum jose_algorithm {
#define X(constant, name, signature, type, curve) constant,
    JOSE_ALGORITHMS(X)
#undef X
    JOSE_ALGORITHM_COUNT
};

enum gate_type {
    GATE_TYPE_JWT,      /* "JWT" in any case, or absent */
    GATE_TYPE_ACCESS,   /* "at+jwt" (RFC 9068) */
    GATE_TYPE_REGISTRY, /* "sijil-reg+jwt": a token of ours */
};

struct gate_token {
    struct bytes text;      /* a view of the whole token; whoever verifies copies it */
    size_t signature_at;    /* where its third segment begins, encoded */
    enum jose_algorithm algorithm;
    enum gate_type type;
    const char *kid, *issuer; /* inside header and payload */
    json_t *header, *payload; /* owned */
};

/** ERROR_INVALID with the rule that is broken, ERROR_LIMIT for size, ERROR_NO_MEMORY. `text` must outlive *token_out. */
RESULT gate_open(struct bytes text, struct gate_token *token_out, struct error *err);
/** Another token made of the same header and payload, which neither changes; `text` is an equal text, which lives as long as it. */
void gate_token_share(const struct gate_token *token, struct bytes text, struct gate_token *token_out);
void gate_token_done(struct gate_token *token);
#define OWNED_GATE_TOKEN __attribute__((cleanup(gate_token_done)))

const char *jose_algorithm_name(enum jose_algorithm algorithm);
bool jose_algorithm_find(const char *name, enum jose_algorithm *algorithm_out);
/** The bits of those that a list of names holds, as the database has it. */
unsigned jose_algorithms_of(const char *names);
