/*
 * registry/recorder.h -- how the outcome of a permitted operation gets into the log.
 *
 * An upload goes on for hours under one permit; each checkpoint and its end is an event of its own, in the
 * transaction of the rows that it speaks of. Who has the request's context (the gateway, a job, a test) gives this.
 */
#pragma once

#include "audit/sequencer.h"

struct recorder {
    /** Submits a later event of the operation, runs `change` (or NULL) with it, and waits. Errors of the change;
     *  ERROR_UNAVAILABLE when the log can't be written, ERROR_UNCERTAIN when nobody knows whether it was. `note`: at most
     *  79 characters, no personal data. */
    RESULT (*record)(struct recorder *recorder, enum outcome outcome, const char *note, struct change *change,
                     struct error *err);
};

/** For jobs of the server, under a permit of permit_for_job(). */
struct job_recorder {
    struct recorder recorder; /* give &recorder on */
    struct sequencer *sequencer;
    const struct permit *permit;
};
void job_recorder_init(struct job_recorder *recorder, struct sequencer *sequencer, const struct permit *permit);
