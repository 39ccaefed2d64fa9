/*
 * training/log_jobs.h -- removes the logs of runs that are over (docs/runs.md, "The log of a run").
 *
 * Closed to handlers (tests/lint/closed_headers.txt): each removal records its own permit.
 */
#pragma once

#include "audit/sequencer.h"
#include "storage/pg.h"

/**
 * For the change that admits a run, or makes its log an artifact otherwise: the pieces go an hour later, so that those who follow the log get
 * its end.
 */
RESULT run_log_was_kept(struct pg *pg, const struct uuid *run, struct error *err);
/** Removes the pieces of logs that are due, of at most a hundred runs, each with its event. Blocks. */
RESULT run_log_forget_due(struct sequencer *sequencer, struct pg *pg, size_t *count_out, struct error *err);
