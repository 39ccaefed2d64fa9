/*
 * keyd/token_check.h -- reads a token that this keyd has signed (keyd/token.h), to sign a request of a training run for its subject.
 *
 * The signature comes first: no byte of the payload is read before keyd's own key has verified it. What the token's gateway wrote into it
 * (`iss`, `aud`, `sub`) keyd does not know better, see docs/formats/run.md, "Who checks what".
 */
#pragma once

#include "base/json.h"
#include "crypto/ecdsa.h"

#define TOKEN_CLAIM_SIZE     513 /* KEYD_NAME_MAX and '\0' */
#define TOKEN_REQUESTER_SIZE 80  /* "ext:", 64 digits and '\0' */
#define TOKEN_DIGEST_SIZE    72  /* "sha256:", 64 digits and '\0' */

/** What the token must be for. Views. */
struct token_use {
    struct bytes issuer, audience; /* `iss` and `aud` */
    struct bytes subject_issuer;   /* of a subject "ext:": the issuer whose digest stands in it; empty for a robot's token */
    int64_t now_s;
};
/** Who may ask for a run with the token: the members of `claims` (docs/formats/run.md), and the principal that follows from them. */
struct token_holder {
    char issuer[TOKEN_CLAIM_SIZE], subject[TOKEN_CLAIM_SIZE];
    char digest[TOKEN_DIGEST_SIZE]; /* of the token's text */
    char requester[TOKEN_REQUESTER_SIZE];
};

/**
 * ERROR_DENIED: none of these keys has signed the token, it is for another registry, has expired or is not valid yet, lacks the right to administer,
 * is that of a run, or its subject is not one of this issuer. ERROR_NO_MEMORY.
 */
RESULT token_check(const struct ecdsa_key *const *keys, size_t key_count, struct bytes token, const struct token_use *use,
                   struct token_holder *holder_out, struct error *err);
/** The same for a payload alone; `digest` is not written. token_check() calls it when the signature is good. */
RESULT token_check_claims(const json_t *payload, const struct token_use *use, struct token_holder *holder_out, struct error *err);
