/*
 * authz/act.h -- a signature over exactly one request: the header Sijil-Act.
 *
 * It is a proof as the header DPoP has them (authz/dpop.h), of another type, and it names more: the whole request target with its query, and the body's digest. Rule: it counts once, so the caller
 * spends act.proof.digest before it does anything, and it counts only if the key is an enrolled one of the principal that asks.
 */
#pragma once

#include "audit/action.h"
#include "audit/format/signed_act.h"
#include "authz/dpop.h"

#define ACT_HEADER "Sijil-Act"

/** Whether this action is one of audit/format/acts.def. */
bool act_is_signed(enum action action);

struct act_rule {
    struct dpop_rule request;
    struct bytes target; /* of the request, as it was sent */
    struct bytes body;
    const char *authorization; /* the header's value: scheme and token */
};
/** ERROR_INVALID names what is wrong, in words for the client; ERROR_NO_MEMORY. */
RESULT act_read(const char *text, const struct act_rule *rule, struct dpop_proof *proof_out, struct error *err);
