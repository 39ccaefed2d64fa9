/*
 * registry/recorder.h -- records the outcome of a permitted operation in the log.
 *
 * An upload may last for hours under one permit. Each checkpoint of the upload, and its end, has an event
 * of its own, in the transaction of the rows that the event describes. The gateway, a job or a test implements this interface.
 */
#pragma once

#include "audit/sequencer.h"

struct recorder {
    /**
     * Submits a later event of the operation, runs `change` (or NULL) with it, and waits. Errors of the change;
     * ERROR_UNAVAILABLE if the log can't be written, ERROR_UNCERTAIN if it is not known whether the event was written. `note`: at
     * most 79 characters, no personal data.
     */
    RESULT (*record)(struct recorder *recorder, enum outcome outcome, const char *note, struct change *change, struct error *err);
};

/** For jobs of the server, under a permit of permit_for_job(). */
struct job_recorder {
    struct recorder recorder; /* pass &recorder on */
    struct sequencer *sequencer;
    const struct permit *permit;
};
void job_recorder_init(struct job_recorder *recorder, struct sequencer *sequencer, const struct permit *permit);
