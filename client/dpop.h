/*
 * client/dpop.h -- proofs that this client has the key that its token is bound to (RFC 9449).
 *
 * A session's key lives as long as the program. `sijil ci login` keeps a token of the registry, so its key is kept, too: dpop.pem of mode 0600, beside
 * hosts.json. A thief of the token alone can't use it.
 */
#pragma once

#include "crypto/ecdsa.h"

#define DPOP_NONCE_MAX 128
#define DPOP_PROOF_MAX 8192

/** One request. */
struct dpop_call {
    const char *method, *url;  /* the query is left out of the proof */
    const char *authorization; /* "DPoP <token>": the proof is for this token. NULL, or another scheme: for none */
    const char *nonce;         /* the registry's newest; "" for none */
};
/** A signature over exactly one request (the header Sijil-Act). */
struct dpop_act {
    const char *target; /* path and query, as they are sent */
    struct bytes body;
};
/** Appends it; call->authorization may have any scheme. */
RESULT dpop_write_act(const struct ecdsa_key *key, const struct dpop_call *call, const struct dpop_act *act, struct buffer *proof,
                      struct error *err);
/** Appends a proof. */
RESULT dpop_write(const struct ecdsa_key *key, const struct dpop_call *call, struct buffer *proof, struct error *err);

/** The stored key. `make`: makes it, if there is none; else that is ERROR_NOT_FOUND. ERROR_DENIED: others may read it. */
RESULT dpop_key_load(bool make, struct ecdsa_key **key_out, struct error *err);
