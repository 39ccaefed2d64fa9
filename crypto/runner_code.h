/*
 * crypto/runner_code.h -- the single-use code with which a runner is enrolled, and proofs that a runner has its key (docs/runner.md).
 *
 * A code is "sjr_" and 64 characters of base64url: the runner's UUID, and 32 random bytes. A registry keeps only the hash of these.
 */
#pragma once

#include "base/uuid.h"
#include "crypto/ecdsa.h"

#define RUNNER_CODE_SIZE   69 /* with '\0' */
#define RUNNER_CODE_SECRET 32

struct runner_code {
    struct uuid runner;
    uint8_t secret[RUNNER_CODE_SECRET];
};
/** A new code for this runner. */
struct runner_code runner_code_new(const struct uuid *runner);
void runner_code_write(const struct runner_code *code, char text_out[RUNNER_CODE_SIZE]);
/** False: it has another form. */
bool runner_code_read(struct bytes text, struct runner_code *code_out);
/** SHA-256 of the secret: what a registry keeps. */
void runner_code_hash(const struct runner_code *code, uint8_t hash_out[32]);

/** What a runner's key proves, for one registry. The texts have no line feed. */
struct runner_proof {
    const char *purpose;   /* "enrolment" or "certificate" */
    const char *audience;  /* origin of the registry's log */
    const char *issued_at; /* as it stands in the request */
    const char *about;     /* the code and the digest of the document; or the key's thumbprint */
};
#define RUNNER_PROOF_SIZE 87 /* base64url of r || s, and '\0' */
RESULT runner_proof_sign(const struct runner_proof *proof, const struct ecdsa_key *key, char text_out[RUNNER_PROOF_SIZE],
                         struct error *err);
/** ERROR_DENIED: the key of this point has not signed it. ERROR_NO_MEMORY. */
RESULT runner_proof_check(const struct runner_proof *proof, const uint8_t point[ECDSA_PUBLIC_SIZE], const char *text,
                          struct error *err);
