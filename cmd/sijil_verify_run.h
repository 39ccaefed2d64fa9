/*
 * cmd/sijil_verify_run.h -- `sijil-verify run`.
 */
#pragma once

#include "audit/format/witness_policy.h"

struct run_request {
    const char *key;                     /* verifier key of the log */
    const char *signer;                  /* PEM file: sijil-keyd's public key of documents */
    const char *root;                    /* PEM file: the public key of the root of approvers */
    const char *run;                     /* the id that it must have; NULL: any */
    const char *manifest;                /* file: is it the manifest of an admitted output? NULL: not asked */
    const char *file;                    /* with a manifest: is it in that output? NULL: not asked */
    const struct witness_policy *policy; /* whose quorum must have cosigned the checkpoints; NULL: none was given */
    const char *const *sets;             /* files of restrictions of organisations, and NULL */
    bool admitted;                       /* a run that was not admitted is not verified */
    bool json;
};
/** Checks a bundle and appends what it proves. ERROR_DENIED: the bundle does not hold; the message names the rule. */
RESULT run_verify_answer(const struct run_request *request, struct bytes bundle, struct buffer *answer, struct error *err);
