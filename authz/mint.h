/*
 * authz/mint.h -- mints a token of ours for a principal.
 *
 * Every token of /token is made by mint_token(); sijil-keyd composes and signs it. A token is only an upper bound of
 * rights, so a revoked role ends at once. A token never outlives the credential that it was made from, nor 900 s.
 */
#pragma once

#include "authz/token_scope.h"
#include "crypto/keyd_client.h"

#define MINT_SECONDS_DEFAULT 300
#define MINT_ANSWER_MAX      32768

struct mint_request {
    const char *issuer, *service;      /* authenticator_issuer(), authenticator_service() */
    const struct principal *principal; /* is_limited is false: a robot with its secret, or an issuer's token */
    const struct token_scope *granted; /* the requested scope, narrowed to the rights of the principal's live bindings */
    struct uuid organisation;          /* the token counts for its limit at keyd: authz_snapshot_home(), or that of the
                                            granted scope */
    const char *thumbprint;            /* x5t#S256 of the client's certificate, or NULL */
    const char *key;                   /* thumbprint of the key of the client's proof, or NULL */
    const char *request;               /* id of the request whose event records it; NULL: none */
    unsigned lifetime_s;               /* 0: MINT_SECONDS_DEFAULT; more than 900 becomes 900 */
    bool is_exchange;                  /* RFC 8693: the response names the type of the token */
    int64_t now_ms;
};

/**
 * Appends the response of /token (JSON: token, access_token, token_type, expires_in, issued_at, scope). ERROR_DENIED
 * if the credential ends within seconds; ERROR_UNAVAILABLE from keyd.
 */
RESULT mint_token(struct keyd_client *keyd, const struct mint_request *request, struct buffer *answer, struct error *err);
