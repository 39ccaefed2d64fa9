/*
 * cmd/sijil_verify_policy.h -- `sijil-verify policy`.
 */
#pragma once

#include "audit/format/witness_policy.h"
#include "base/bytes.h"

struct policy_request {
    const char *key;                     /* of the log */
    const char *root;                    /* PEM file of the root's public key */
    const struct witness_policy *policy; /* of witnesses; NULL: no cosignature is demanded */
    bool json;
};
/** Appends what the exported set proves, and the set as a person reads it. ERROR_DENIED: it proves nothing. */
RESULT policy_verify_answer(const struct policy_request *request, struct bytes text, struct buffer *answer, struct error *err);
