/*
 * authz/challenge.h -- the value of WWW-Authenticate (RFC 6750, 3; the token scheme of OCI registries).
 *
 * Built from the route alone, so that it is equal for what exists and what does not.
 */
#pragma once

#include "authz/authenticate.h"
#include "authz/scope.h"

#define CHALLENGE_MAX 4096

/** Appends Bearer realm="<issuer>/token",service="...",scope="...",error="...": error and scope only if there is one. */
RESULT challenge_write(const struct authenticator *authenticator, const struct scope *scope,
                       const struct authentication *authentication, struct buffer *value, struct error *err);
