/*
 * authz/opaque_login.h -- from an opaque token of a trusted issuer to its subject, at /token only.
 *
 * The issuer says whether the token is valid (authz/introspection.h), and its claims are checked like those of a JWT: the audience is ours alone, the token lives no
 * longer than is accepted, and it is bound to no key that was not shown. Waits for nobody: `is_waiting` says that the issuer is being asked.
 */
#pragma once

#include "authz/authenticate.h"
#include "authz/introspection.h"

struct opaque_login {
    struct introspection *introspection;
    struct authz_directory *directory;
    const struct credential *credential;
    const char *issuer;        /* that the client names; NULL: the only one */
    struct attempts *attempts; /* tokens that the issuer does not know are counted as wrong secrets of the client's network */
    bool is_first;             /* of the calls for one request */
    bool *is_counted;          /* set by the first one: `attempts` has counted the request. The later ones read it */
    struct bytes token;        /* for which introspection_token_is_opaque() */
};
/** As authenticate_token(). With *is_waiting_out the authentication is not written: call again soon. ERROR_UNAVAILABLE: the issuer does not answer. */
RESULT authenticate_opaque(const struct opaque_login *login, struct authentication *authentication_out, bool *is_waiting_out,
                           struct error *err);
