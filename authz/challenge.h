/*
 * authz/challenge.h -- the value of WWW-Authenticate (RFC 6750, 3; the token scheme of OCI registries).
 *
 * Depends on the route and the registry's name alone, so a challenge does not tell whether a thing exists.
 */
#pragma once

#include "authz/authenticate.h"
#include "authz/token_scope.h"

#define CHALLENGE_MAX 4096

struct challenge {
    const char *url;     /* the registry's URL as this client uses it: "https://host[:port]" */
    const char *service; /* authenticator_service(): the same for every name of the registry */
    const struct token_scope *scope;
    const struct authentication *authentication;
    const char *acr_values; /* of OAUTH_STEP_UP: one of them is wanted; NULL: each will do */
    bool is_dpop; /* the client came with a proof, or needs one: DPoP, with the algorithms (RFC 9449, 7.1), instead of Bearer */
};
/** Appends Bearer realm="<url>/token",service="...",scope="...",error="...". Scope and error are left out if there are none. */
RESULT challenge_write(const struct challenge *challenge, struct buffer *value, struct error *err);
