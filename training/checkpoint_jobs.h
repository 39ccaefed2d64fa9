/*
 * training/checkpoint_jobs.h -- removes checkpoints that nobody will continue from (docs/runs.md, "Checkpoints").
 *
 * Closed to handlers (tests/lint/closed_headers.txt): each removal records its own permit.
 */
#pragma once

#include "audit/sequencer.h"
#include "storage/pg.h"
#include "training/doubt.h"

#define RUN_CHECKPOINT_KEPT_MS \
    (INT64_C(30) * 24 * 3600 * 1000) /* after the end of a run that has not succeeded, and of its order */

/**
 * Removes the checkpoints of runs that succeeded, and of runs whose order ended 30 days ago, at most a hundred, each with its event. One that an open run
 * continues from stays. The row of a run proves nothing, because a thief of the database's role can write it: only an admission or an order of that run counts
 * that `signer`, the key of sijil-keyd, has signed. *count_out: how many went. Blocks.
 */
RESULT run_checkpoint_forget_due(struct sequencer *sequencer, struct pg *pg, const struct ecdsa_key *signer, size_t *count_out,
                                 struct error *err);
/** The same for those of runs that withdrawn runners have had since then, as far as leases that sijil-keyd has signed show it. */
RESULT run_checkpoint_forget_doubted(struct sequencer *sequencer, struct pg *pg, const struct run_withdrawals *withdrawals,
                                     size_t *count_out, struct error *err);
