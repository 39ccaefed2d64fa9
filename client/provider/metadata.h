/*
 * client/provider/metadata.h -- what an issuer says about itself (RFC 8414 section 2, OpenID Connect Discovery 1.0 section 3).
 */
#pragma once

#include "base/bytes.h"

#define PROVIDER_URL_SIZE      256  /* as a trusted issuer's (docs/identity.md) */
#define PROVIDER_ENDPOINT_SIZE 1024 /* of an endpoint, and of the page for a device's code */
#define PROVIDER_ANSWER_MAX    ((size_t)256 << 10)

struct provider_metadata {
    char authorization[PROVIDER_ENDPOINT_SIZE], token[PROVIDER_ENDPOINT_SIZE]; /* the first may be "": no code can be had */
    char device[PROVIDER_ENDPOINT_SIZE], revocation[PROVIDER_ENDPOINT_SIZE];   /* "": the issuer has none */
    bool names_itself; /* the browser comes back with `iss` (RFC 9207 section 3) */
    bool without_s256; /* it lists its methods of PKCE, and S256 is none of them */
    bool
        revokes_for_bearer; /* a revocation carries an access token, because the issuer lets no public client revoke without one */
};

/**
 * Whether a URL may be called, or shown to a person: https, with no user, fragment, space, quote or character that is not ASCII, and shorter than
 * PROVIDER_ENDPOINT_SIZE.
 */
bool provider_url_is_good(const char *url);

/**
 * Reads the document that was found below `url`. ERROR_DENIED if it is of another issuer than `url`, byte by byte (RFC 8414 section 3.3).
 * ERROR_INVALID if it is malformed, or has no token endpoint, or an endpoint with a bad address.
 */
RESULT metadata_parse(struct bytes text, const char *url, struct provider_metadata *metadata_out, struct error *err);
