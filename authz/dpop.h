/*
 * authz/dpop.h -- reads and checks a proof that a client has a key: the header DPoP (RFC 9449).
 *
 * A proof is a JWS that names one request: method, URL, time, a nonce of ours and, with a token, the token's digest. dpop_read() checks all
 * of it that needs no database (4.3, in one pass), by our own code: no library sees a proof. Rule: a proof counts once, so the caller spends
 * dpop_proof.digest (authz/dpop_spent.h) before it does anything for the client.
 */
#pragma once

#include <jansson.h>

#include "authz/dpop_nonces.h"
#include "crypto/digest.h"
#include "crypto/key_proof.h"

#define DPOP_SIZE_MAX     KEY_PROOF_SIZE_MAX
#define DPOP_ID_MAX       128 /* bytes of jti */
#define DPOP_WINDOW_S     60  /* how far iat may be from our clock, before or after */
#define DPOP_ALGORITHMS   KEY_PROOF_ALGORITHMS
#define DPOP_KEY_SIZE     KEY_PROOF_KEY_SIZE
#define DPOP_TOKEN_LETTER 43 /* of a token's digest */

/** What the request is. */
struct dpop_rule {
    const char *method; /* "GET" */
    const char *url;    /* "https://host[:port]" in lower case and without ":443", as hosts_url() writes it */
    struct bytes path;  /* of the request target, as it was sent, without query */
    const struct dpop_nonces *nonces;
    int64_t now_ms;
    const char *type; /* NULL: "dpop+jwt" */
};

struct dpop_proof {
    char key[DPOP_KEY_SIZE];           /* the key's thumbprint (RFC 7638): cnf.jkt of tokens that are bound to it */
    char token[DPOP_TOKEN_LETTER + 1]; /* ath: the digest of the token that comes with it; "" without one */
    uint8_t digest[SHA256_SIZE];       /* of key and jti: the same for two proofs with one jti, whatever their signatures */
    bool is_fresh; /* it has a nonce that is accepted now; if not, the client asks again with the newest one (8) */
};

/** ERROR_INVALID names what is wrong, in words for the client; ERROR_NO_MEMORY. */
RESULT dpop_read(const char *text, const struct dpop_rule *rule, struct dpop_proof *proof_out, struct error *err);
/** The same for a proof of another type, with its claims, of which the caller checks those that it knows besides. Its digest is another one than that of any other type. */
RESULT dpop_read_typed(const char *text, const char *type, const struct dpop_rule *rule, struct dpop_proof *proof_out,
                       json_t **payload_out, struct error *err);
/** The part of it that follows the signature; proof->key is set. If it fails, the other members may have changed. */
RESULT dpop_read_claims(const json_t *payload, const struct dpop_rule *rule, struct dpop_proof *proof, struct error *err);
/** Whether it was made for the token with this SHA-256 (RFC 9449, 4.3, the twelfth check). */
bool dpop_is_for(const struct dpop_proof *proof, const uint8_t token_sha256[SHA256_SIZE]);
