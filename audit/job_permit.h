/*
 * audit/job_permit.h -- permits for the work that the server does by itself.
 *
 * No decider is asked: the server may do its own work, and the log says that it did. So no code that serves a request
 * may include this: a handler could permit itself anything. tests/lint/closed_headers.txt names the files that may.
 */
#pragma once

#include "audit/sequencer.h"

/**
 * Records `allowed` and yields the permit. Blocks; never call it on an event thread. ERROR_UNAVAILABLE if the log can't be written.
 */
RESULT permit_for_job(struct sequencer *sequencer, const struct action_pair *pair, struct permit **permit_out, struct error *err)
    __attribute__((nonnull));

/**
 * Like permit_for_job(), for jobs with several records at a time: prepares a record with a change in the same transaction. Set
 * record->done and submit the record. *record_out is overwritten.
 */
RESULT record_prepare_for_job(const struct action_pair *pair, struct change *change, struct record *record_out, struct error *err)
    __attribute__((nonnull(1, 3, 4)));
