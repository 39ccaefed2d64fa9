/*
 * cmd/sijil_verify_succession.h -- sijil-verify succession: whether a log follows another one, and its key.
 */
#pragma once

#include "audit/format/succession.h"
#include "audit/format/witness_policy.h"

struct succession_request {
    const char *key, *file;                        /* of the log that ended; the plan that officers have signed */
    const char *officers[SUCCESSION_OFFICERS_MAX]; /* PEM files of their public keys, the root's first, then NULL */
    const char *set; /* the policy set in force, which the root has signed: how many persons the root is. NULL: not given */
    const char *entry, *proof;           /* of the first own entry of the new log; NULL: not given */
    const struct witness_policy *policy; /* NULL: none */
    bool json;
};
/** ERROR_DENIED: it is not verified. */
RESULT succession_verify_file(const struct succession_request *request, struct buffer *answer, struct error *err);
