/*
 * training/lease_jobs.h -- the server's own changes of runs (docs/runs.md). These functions block.
 *
 * Closed to handlers (tests/lint/closed_headers.txt): each change records its own permit.
 */
#pragma once

#include "training/lease.h"

/** Fails a run that must not go on, such as one that today's policies forbid. ERROR_CONFLICT: it has ended. */
RESULT run_stop(struct sequencer *sequencer, const struct resource *where, const struct uuid *run, const char *reason,
                struct error *err);
/**
 * A change: ends a run that finished, with the admission that sijil-keyd has signed. ERROR_CONFLICT: it is not finishing. The permit: run.admit on the
 * project.
 */
struct run_admit {
    struct change change;
    struct resource where;
    struct uuid run;
    struct run_signed admission;
    RESULT(*store)
    (const struct permit *permit, const struct run_admit *admit, struct pg *pg, struct error *err); /* the rest; NULL: nothing */
};
void run_admit_prepare(const struct resource *where, const struct uuid *run, const struct run_signed *admission,
                       struct run_admit *admit_out);
/** Ends a run whose result can't be admitted. ERROR_CONFLICT: it is not finishing. */
RESULT run_quarantine(struct sequencer *sequencer, const struct resource *where, const struct uuid *run, const char *reason,
                      struct error *err);
/** Removes offers that are an hour old. They lease nothing, so there is no event. */
RESULT run_offer_forget(struct pg *pg, struct error *err);
/** Ends attempts that were silent for too long, at most a hundred: each run is ordered again, or fails after its last attempt. */
RESULT run_lose_due(struct sequencer *sequencer, struct pg *pg, size_t *count_out, struct error *err);
