/*
 * client/provider/code.h -- authorization code with PKCE, on a loopback port (RFC 6749 section 4.1, RFC 7636, RFC 8252, RFC 9700 section 2.1.1).
 */
#pragma once

#include "client/provider/provider.h"

#define CODE_URL_MAX 4096

/** How the person's browser is sent to the issuer. */
struct code_browser {
    void (*show)(void *context, const char *url); /* the URL has no secret */
    void *context;
    unsigned port;          /* of the loopback address, for an issuer that allows one address only; 0: any */
    int64_t longest_ms;     /* the time that the person has */
    bool is_fresh;          /* the issuer asks again, whether or not it knows the person already */
    const char *acr_values; /* how it should ask (RFC 9470); NULL: as it likes */
};

/**
 * ERROR_DENIED if the person refuses, does nothing in time, or the answer is of another issuer (RFC 9207). ERROR_INVALID if the issuer has no
 * authorization endpoint, or no PKCE with S256. ERROR_CONFLICT: another program has the port.
 */
RESULT code_log_in(struct provider *issuer, const struct code_browser *browser, struct provider_tokens *tokens_out,
                   struct error *err);
