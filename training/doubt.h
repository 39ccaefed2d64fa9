/*
 * training/doubt.h -- what follows for runs from the withdrawal of a runner (docs/runs.md, "When a runner is withdrawn").
 *
 * A withdrawal says since when the runner's results do not count. A run that waits for its admission is quarantined. A run that was admitted stays as it
 * ended, because its end is in the log and others may have used its outputs; a doubt is added to it, with an event.
 *
 * Rule: no code that serves a request may include this (tests/lint/closed_headers.txt). Each doubt records its own permit.
 */
#pragma once

#include "audit/sequencer.h"
#include "crypto/ecdsa.h"
#include "training/run.h"

#define RUN_WITHDRAWALS_MAX 1000 /* in one call */

/** A runner that was withdrawn; views. */
struct run_withdrawal {
    struct bytes key; /* its thumbprint */
    struct uuid runner;
    int64_t since_ms;
    const char *reason;
};
/**
 * `signer`: the key of sijil-keyd. A row of an attempt proves nothing, because a thief of the database's role can write any row: only an attempt whose row
 * has the lease of that run and key, signed by sijil-keyd, puts a run in doubt.
 */
struct run_withdrawals {
    size_t count; /* at most RUN_WITHDRAWALS_MAX */
    const struct run_withdrawal *each;
    const struct ecdsa_key *signer;
};
/**
 * Goes through the runs whose newest attempt one of these runners finished since then, at most a hundred. A run whose doubt is known is left out. *count_out: how
 * many were new. Blocks.
 */
RESULT run_doubt_due(struct sequencer *sequencer, struct pg *pg, const struct run_withdrawals *withdrawals, size_t *count_out,
                     struct error *err);
