/*
 * authz/mint.h -- from a principal and what it may have to a token of ours.
 *
 * Everything that ends at /token comes through mint_token(): keyd composes and signs, and the token is never more
 * than an upper bound, so rights that are taken away later are gone at once. Never past the end of the credential
 * that it is made from, never longer than 900 s.
 */
#pragma once

#include "authz/scope.h"
#include "crypto/keyd_client.h"

#define MINT_SECONDS_DEFAULT 300
#define MINT_ANSWER_MAX      32768

struct mint_request {
    const char *issuer, *service;        /* authenticator_issuer(), authenticator_service() */
    const struct principal *principal;   /* not limited: a robot by its secret, or an issuer's token */
    const struct scope *granted;         /* narrowed to what its bindings allow now */
    struct uuid organisation;            /* for which keyd counts it: authz_snapshot_home(), or that of what is granted */
    const char *thumbprint;              /* x5t#S256 of the client's certificate, or NULL */
    const char *request;                 /* id of the request whose event records it; NULL: none */
    unsigned lifetime_s;                 /* 0: MINT_SECONDS_DEFAULT; more than 900 is cut */
    bool is_exchange;                    /* RFC 8693: the answer names the type of the token */
    int64_t now_ms;
};

/**
 * Appends the answer of /token (JSON: token, access_token, token_type, expires_in, issued_at, scope). ERROR_DENIED if
 * the credential ends within seconds; ERROR_UNAVAILABLE from keyd.
 */
RESULT mint_token(struct keyd_client *keyd, const struct mint_request *request, struct buffer *answer,
                  struct error *err);
