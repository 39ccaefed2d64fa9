/*
 * gateway/pipeline/token_login.h -- the credentials of a form of /token: a name with a password, or a name alone whose certificate TLS has brought.
 */
#pragma once

#include "authz/authenticate.h"
#include "gateway/pipeline/request.h"

/** Handles name and password like those of a header. */
RESULT token_login_password(struct request *request, const struct credential *credential, const char *name, const char *password,
                            struct authentication *authentication, struct error *err);
/**
 * The robot `name` logs in by the certificate of this connection (RFC 8705): by the certificate itself, which it may have signed itself (2.2), or by a name in it, if
 * an authority of clients has signed it (2.1).
 */
RESULT token_login_certificate(struct request *request, const struct credential *credential, const char *name,
                               struct authentication *authentication, struct error *err);

void token_login_refuse(struct authentication *authentication, enum oauth_error error, const char *description);
