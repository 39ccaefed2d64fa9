/*
 * crypto/key_proof.h -- a JWS whose header has the public key that it is signed with (`jwk`): proofs of DPoP (RFC 9449), and signatures over one request.
 *
 * Our own code reads all of it: no library sees such a text. Rule: this says that whoever has the key has signed the claims, and nothing of whose key it is, or of what the claims say.
 */
#pragma once

#include <jansson.h>

#include "base/bytes.h"

#define KEY_PROOF_SIZE_MAX   4096 /* a proof has about 500 bytes, and a URL of at most 2 KiB */
#define KEY_PROOF_KEY_SIZE   44   /* a thumbprint (RFC 7638), with NUL */
#define KEY_PROOF_ALGORITHMS "ES256 EdDSA"

struct key_proof {
    char key[KEY_PROOF_KEY_SIZE];
    json_t *claims; /* an object */
};
/** `type`: what typ must be. ERROR_INVALID names what is wrong, in words for the client; ERROR_NO_MEMORY. */
RESULT key_proof_read(const char *text, const char *type, struct key_proof *proof_out, struct error *err);
void key_proof_done(struct key_proof *proof);
#define OWNED_KEY_PROOF __attribute__((cleanup(key_proof_done))) struct key_proof

/** Whether a key is public: without the members of private and symmetric keys (RFC 7518, sections 6.2.2, 6.3.2 and 6.4). */
bool jwk_is_public(const json_t *key);
