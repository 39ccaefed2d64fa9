/*
 * authz/claims.h -- our own checks of a token's claims, each time that it is used.
 *
 * The result of a signature check may be cached; claims are checked each time. aud must be our audience and no other.
 * exp, iat and nbf must fit the clock. The lifetime must not exceed the accepted maximum. A token that is bound to a
 * key (cnf) is valid with that key only.
 */
#pragma once

#include <jansson.h>

#include "authz/principal.h"

#define CLAIMS_SKEW_S              60 /* how far ahead an issuer's clock may be */
#define REGISTRY_TOKEN_SECONDS_MAX 900
#define CLAIMS_SUBJECT_MAX         255 /* OpenID Connect Core, 2 */

struct claims_rule {
    const char *audience;
    unsigned lifetime_max_s; /* of exp - iat */
    size_t subject_max;      /* bytes of sub */
    unsigned grace_s;        /* how long after exp the token is still accepted; 0 except for upload sessions */
    bool needs_id;           /* jti must be there */
    const char *thumbprint;  /* x5t#S256 of the client's certificate; NULL without one */
    const char *key;         /* thumbprint of the key of the client's proof (authz/dpop.h); NULL without one */
    int64_t now_ms;
};

/** Views into the payload. */
struct claims {
    const char *issuer, *subject, *id; /* id NULL if there is no jti */
    const char *confirmation;          /* x5t#S256; NULL: it is not bound to a certificate */
    const char *key;                   /* jkt; NULL: it is not bound to a key */
    const char *acr;                   /* of the login; NULL without one that is plain and fits a principal */
    const char *client;  /* client_id or azp: the program that logged in; NULL without one that is plain and fits a principal */
    int64_t auth_time_s; /* of the login; 0: none */
    int64_t issued_s, expires_s;
};

/** Whether a text has 1 to `maximum` bytes without control characters. For `sub`, and so for the subject of a binding. */
bool claims_text_is_plain(const char *text, size_t maximum);

/** ERROR_DENIED names the claim that is wrong. `payload` must come from jws_parse(). */
RESULT claims_check(const json_t *payload, const struct claims_rule *rule, struct claims *claims_out, struct error *err);

/** Expiry, lifetime, confirmation and login of the principal. */
void claims_fill(const struct claims *claims, struct principal *principal);

/** A NumericDate (RFC 7519, 2) in whole seconds; its fraction is cut off. False unless it is from 0 to the year 36812. */
bool claims_time(const json_t *payload, const char *claim, int64_t *seconds_out);

/** The part of the check that needs no rule: exp, iat and nbf have their form and fit the clock. ERROR_DENIED. */
RESULT claims_check_times(const json_t *payload, int64_t now_s, unsigned grace_s, struct error *err);

/**
 * Whether the payload of a token with typ JWT, or without typ, is that of an ID token of a login: such a token tells its client who logged in (OpenID
 * Connect Core, 2 and 3.1.3.6), and has one of nonce, at_hash, c_hash and s_hash. The tokens of CI systems have none of them.
 */
bool claims_are_of_login(const json_t *payload);

/** Reads src, access, catalog and admin of a token of ours into `principal`; ERROR_DENIED if one is malformed. */
RESULT claims_read_rights(const json_t *payload, struct principal *principal, struct error *err);
