/*
 * runner/serve/outcome.h -- what a run's result says about its end.
 */
#pragma once

#include "runner/sandbox/sandbox.h"
#include "training/format/compose.h"

#define OUTCOME_REASON_SIZE 257 /* docs/formats/run.md */

/** How the program ended, and what else went wrong. */
struct ended_run {
    const struct sandbox_report *report; /* NULL: the program did not begin, or was not watched to its end: `fault` says why */
    const char *fault;                   /* of the runner or of the outputs; NULL: none */
    const char *lacks;                   /* the name of an output that is not there; NULL: none */
    const char *lost;                    /* the run was cancelled because this other node is gone; NULL: it was not */
    const char *stopped;                 /* why the runner cancelled it; NULL: it did not */
    int64_t output_max;                  /* the limit output_bytes; 0: unknown */
};

struct outcome {
    const char *status; /* "succeeded", "failed", "cancelled", "timeout" */
    char reason[OUTCOME_REASON_SIZE];
    int64_t exit_status, signal;
};

/** Status, exit and reason of the result; pure. */
struct outcome outcome_of(const struct ended_run *ended);

/** Per cent of a line of a heartbeat: "40%", "40 %" or "epoch 3/10"; -1: it has none. */
int outcome_progress(const char *line);
