/*
 * cmd/sijil_verify_compare.h -- `sijil-verify compare`.
 */
#pragma once

#include "base/bytes.h"

struct compare_request {
    const char *key;   /* of the log */
    const char *first; /* files of the checkpoints: signed notes, or answers of GET /api/v1/audit/consistency */
    const char *second;
    const char *dump;     /* of the longer log; NULL: none */
    const char *evidence; /* to check, in place of two checkpoints; NULL: none */
    const char *output;   /* where the evidence of a fork goes; NULL: nowhere */
};
/** Appends the results. *is_one_log_out is false for a fork. ERROR_DENIED: the files say nothing about that; the message tells what is needed. */
RESULT compare_checkpoints(const struct compare_request *request, struct buffer *answer, bool *is_one_log_out, struct error *err);
