/*
 * training/checkpoint_jobs.h -- removes checkpoints that nobody will continue from (docs/runs.md, "Checkpoints").
 *
 * Closed to handlers (tests/lint/closed_headers.txt): each removal records its own permit.
 */
#pragma once

#include "audit/sequencer.h"
#include "storage/pg.h"
#include "training/doubt.h"

/**
 * Removes the checkpoints of runs that succeeded or were quarantined, or that ended 30 days ago, at most a hundred, each with its event. One that an
 * open run continues from stays, unless its run was quarantined. *count_out: how many went. Blocks.
 */
RESULT run_checkpoint_forget_due(struct sequencer *sequencer, struct pg *pg, size_t *count_out, struct error *err);
/** The same for those of runs that withdrawn runners have had since then, as far as leases that sijil-keyd has signed show it. */
RESULT run_checkpoint_forget_doubted(struct sequencer *sequencer, struct pg *pg, const struct run_withdrawals *withdrawals,
                                     size_t *count_out, struct error *err);
