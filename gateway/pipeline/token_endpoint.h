/*
 * gateway/pipeline/token_endpoint.h -- /token: makes a short-lived token from a credential and a requested scope.
 *
 * GET is the token scheme of OCI registries; POST is OAuth 2.0 (RFC 6749, RFC 8693) with a form. Both answer errors as JSON
 * of RFC 6749 section 5.2, which the clients of both read.
 */
#pragma once

#include "authz/authenticate.h"
#include "gateway/pipeline/request.h"

/**
 * Like authenticate(), but also takes the credential from a form: name and password, or the subject_token of an exchange. More than one
 * credential is invalid_request.
 */
RESULT token_authenticate(struct request *request, const struct credential *credential, struct authentication *authentication_out,
                          struct error *err);

struct token_demand;
/** What is demanded of the token that the request asks for, after its target function; kept for the token's lifetime. */
struct token_demand token_demanded(struct request *request);

/** Makes the answer to a bad credential or request: {"error","error_description"}. */
void token_refuse(struct request *request, enum oauth_error error, const char *description);
