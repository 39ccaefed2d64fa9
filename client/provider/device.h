/*
 * client/provider/device.h -- device authorization (RFC 8628): the person types a code into a page of the issuer, on any machine.
 */
#pragma once

#include "client/provider/provider.h"

/** What the person is asked to do. All of it is safe to show. */
struct device_prompt {
    char code[65];                          /* "WDJB-MJHT" */
    char page[PROVIDER_ENDPOINT_SIZE];      /* where to type it */
    char page_with[PROVIDER_ENDPOINT_SIZE]; /* the same page with the code already typed; "": there is none */
};
/** What an issuer answers at its device authorization endpoint (section 3.2). */
struct device_offer {
    char secret[2049]; /* device_code */
    struct device_prompt prompt;
    int64_t lifetime_s, interval_s;
};
/** ERROR_INVALID for an offer that is malformed, or whose page is no good address. */
RESULT device_offer_take(const json_t *answer, struct device_offer *offer_out, struct error *err);

/**
 * Asks for a code, shows it, and waits until the person has agreed. ERROR_DENIED if the person refuses, or the code ends before. ERROR_INVALID: the
 * issuer has no such endpoint.
 */
RESULT device_log_in(struct provider *issuer, void (*show)(void *context, const struct device_prompt *prompt), void *context,
                     struct provider_tokens *tokens_out, struct error *err);
