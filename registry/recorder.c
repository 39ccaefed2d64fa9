#include "registry/recorder.h"

#include <stdio.h>

static struct result record_for_job(struct recorder *recorder, enum outcome outcome, const char *note, struct change *change,
                                    struct error *err)
{
    /* The recorder is the first member. */
    const struct job_recorder *job = (const struct job_recorder *)(const void *)recorder;
    struct record record = {.under = job->permit, .outcome = outcome, .change = change};

    (void)snprintf(record.note, sizeof record.note, "%s", note);
    sequencer_submit_and_wait(job->sequencer, &record);
    const enum record_status status = record.status;
    const struct error error = record.error;
    record_done(&record);
    if (status == RECORD_DONE) return SUCCESS;
    if (status == RECORD_REFUSED || error.kind == ERROR_UNCERTAIN) {
        *err = error;
        return (struct result){.ok = false};
    }
    return failure(err, ERROR_UNAVAILABLE, "the audit log can't be written now; nothing was changed");
}

void job_recorder_init(struct job_recorder *recorder, struct sequencer *sequencer, const struct permit *permit)
{
    *recorder = (struct job_recorder){.recorder = {.record = record_for_job}, .sequencer = sequencer, .permit = permit};
}
