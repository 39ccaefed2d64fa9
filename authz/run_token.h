/*
 * authz/run_token.h -- tokens of training runs (docs/runs.md, "What a run may read and write").
 *
 * A token of a run is for the runner that holds a lease of it: the subject is the run, the source is the lease, and it is bound to the
 * runner's certificate. It has no rights of its own. At each request gateway/pipeline/run_gate.h finds the lease, and writes what the order
 * allows this request into the principal: one repository in `access`, and one digest in `content`.
 */
#pragma once

#include "audit/permit.h"
#include "authz/claims.h"
#include "authz/snapshot.h"
#include "crypto/keyd_client.h"

#define RUN_TOKEN_SECONDS  300
#define RUN_TOKEN_KEY_SIZE 44 /* a thumbprint (RFC 7638) and '\0' */

/** The lease behind a token. */
struct run_token {
    struct uuid run;
    int64_t attempt, node;
    char key[RUN_TOKEN_KEY_SIZE]; /* thumbprint of the runner's key */
};

struct run_token_request {
    const char *issuer, *service; /* authenticator_issuer(), authenticator_service() */
    const struct run_token *token;
    struct uuid organisation; /* the token counts for its limit at keyd */
    const char *thumbprint;   /* x5t#S256 of the runner's certificate */
    const char *request;      /* id of the request whose event records it */
    int64_t ends_ms, now_ms;  /* the lease's end: the token ends before it */
};
/**
 * Appends the JSON of the answer: access_token, expires_in, token_type. ERROR_DENIED if the lease ends within seconds; errors of keyd. The permit:
 * run.token for exactly this lease.
 */
RESULT run_token_mint(const struct permit *permit, struct keyd_client *keyd, const struct run_token_request *request,
                      struct buffer *answer, struct error *err) __attribute__((nonnull));

/** A principal from the claims of such a token, without any right yet. ERROR_DENIED: the token is not one that keyd makes here. */
RESULT run_token_read(const struct claims *claims, struct principal *principal, struct error *err);
/** The lease that the token of a principal of the kind PRINCIPAL_RUN names. False: the source has another form. */
bool run_token_of(const struct principal *principal, struct run_token *token_out);

/** authz_snapshot_authorize() for a run: only what is in the principal. */
struct authz_answer run_authorize(const struct principal *principal, enum action action, const struct resource *resource);
