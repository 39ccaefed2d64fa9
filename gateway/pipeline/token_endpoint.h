/*
 * gateway/pipeline/token_endpoint.h -- /token: a credential and a wish become a short token.
 *
 * GET is the token scheme of OCI registries; POST is OAuth 2.0 (RFC 6749, RFC 8693) with a form. Errors are RFC 6749
 * JSON (section 5.2) on both, because that is what clients of either read.
 */
#pragma once

#include "authz/authenticate.h"
#include "gateway/pipeline/request.h"

/**
 * Like authenticate(), but also finds the credential in a form: name and password, or the subject_token of an
 * exchange. More than one credential is invalid_request.
 */
RESULT token_authenticate(struct request *request, const struct credential *credential,
                          struct authentication *authentication_out, struct error *err);

/** The answer to a credential or a wish that is not good: {"error","error_description"}. */
void token_refuse(struct request *request, enum oauth_error error, const char *description);
