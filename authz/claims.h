/*
 * authz/claims.h -- what a token says, checked by ourselves, each time that it is used.
 *
 * Signatures may be cached, claims never: aud must be ours alone, exp, iat and nbf must fit the clock, the lifetime
 * must be one that we accept, and a token that is bound to a key (cnf) works with that key only.
 */
#pragma once

#include <jansson.h>

#include "authz/principal.h"

#define CLAIMS_SKEW_S            60  /* how far ahead an issuer's clock may be */
#define REGISTRY_TOKEN_SECONDS_MAX 900
#define CLAIMS_SUBJECT_MAX       255 /* OpenID Connect Core, 2 */

struct claims_rule {
    const char *audience;
    unsigned lifetime_max_s; /* of exp - iat */
    size_t subject_max;      /* bytes of sub */
    unsigned grace_s;        /* how long after exp it still passes; 0 but for upload sessions */
    bool needs_id;           /* jti must be there */
    const char *thumbprint;  /* x5t#S256 of the client's certificate; NULL without one */
    int64_t now_ms;
};

/** Views into the payload. */
struct claims {
    const char *issuer, *subject, *id; /* id NULL if there is no jti */
    const char *confirmation;          /* x5t#S256; NULL for a plain bearer token */
    int64_t issued_s, expires_s;
};

/** 1 to `maximum` bytes without control characters: what `sub` may be, and so the subject of a binding. */
bool claims_text_is_plain(const char *text, size_t maximum);

/** ERROR_DENIED with the claim that is wrong. `payload` must be an object that passed the gate. */
RESULT claims_check(const json_t *payload, const struct claims_rule *rule, struct claims *claims_out,
                    struct error *err);

/** Reads src, access, catalog and admin of a token of ours into `principal`; ERROR_DENIED if one is malformed. */
RESULT claims_read_rights(const json_t *payload, struct principal *principal, struct error *err);
