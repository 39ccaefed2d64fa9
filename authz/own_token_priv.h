/* authz/own_token_priv.h -- the principal of a token of ours, whose signature and claims are good; for authenticate.c only. */
#pragma once

#include "authz/authenticate.h"

struct own_token {
    const struct authz_snapshot *snapshot;
    const struct credential *credential;
    const json_t *payload;
    const struct claims *claims;
};
/** A robot, a run, a subject of an issuer, or a trust rule. ERROR_DENIED: it does not count any more, or the token is malformed. */
RESULT own_token_principal(const struct own_token *token, struct principal *principal, struct error *err);
