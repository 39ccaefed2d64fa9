/*
 * runner/enrolment/enroll.h -- uses the code of an invitation: `sijil-runner enroll`.
 */
#pragma once

#include "runner/state/runner_state.h"

struct enroll_options {
    const char *state;                   /* the folder */
    const char *code_file;               /* "-": standard input */
    const char *url;                     /* https://HOST[:PORT] in place of the file's; NULL: the file's */
    const char *ca_file;                 /* PEM, in place of the file's; NULL: the file's */
    const char *root_file, *signer_file; /* PEM; the file of the code must have the same keys; NULL: not compared */
    const char *log_key;                 /* the same */
};
/**
 * Makes the runner's key, pins the keys of the registry, and sends the runner's document, signed with its key. The document then waits for its approvers. A repeated
 * call changes nothing. ERROR_DENIED: the code is wrong, was used or has expired, or a key differs from the given one. ERROR_CONFLICT: the folder is of
 * another runner.
 */
RESULT enroll(const struct enroll_options *options, struct runner_state **state_out, struct error *err);
