/*
 * authz/challenge.h -- the value of WWW-Authenticate (RFC 6750, 3; the token scheme of OCI registries).
 *
 * Built from the route and the name of the registry alone, so that it is equal for what exists and what does not.
 */
#pragma once

#include "authz/authenticate.h"
#include "authz/scope.h"

#define CHALLENGE_MAX 4096

struct challenge {
    const char *url;     /* of the registry, as this client calls it: "https://host[:port]" */
    const char *service; /* authenticator_service(): one, by whatever name the registry is called */
    const struct scope *scope;
    const struct authentication *authentication;
};
/** Appends Bearer realm="<url>/token",service="...",scope="...",error="...": error and scope only if there is one. */
RESULT challenge_write(const struct challenge *challenge, struct buffer *value, struct error *err);
