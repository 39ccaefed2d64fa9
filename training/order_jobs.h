/*
 * training/order_jobs.h -- the server's own work on requested runs: decides them again, and has sijil-keyd sign their orders (docs/runs.md).
 *
 * Closed to handlers (tests/lint/closed_headers.txt): each step records its own permit.
 */
#pragma once

#include "training/bundle.h"

extern const struct pg_table run_draft_table;

#define RUN_CHANNEL \
    "sijil_run" /* PostgreSQL notifies: a run is requested, or waits for a runner (migrations/0049_run_orders.sql) */

/**
 * Takes the oldest requested run that was not tried yet, or else the one that was tried longest ago, and orders it, or ends it with the reason. *found_out false: there is no such
 * run. After a failure the run is tried again half a minute later; *found_out is written then, too. Blocks for some seconds at most.
 */
RESULT run_order_next(const struct run_bundle_source *source, const char *instance, bool *found_out, struct error *err);
/** Tells sijil-keyd of runs that have ended, at most a hundred, so that it frees what it reserves for them. A crash in between tells it again. */
RESULT run_free_ended(struct keyd_client *keyd, struct pg *pg, size_t *count_out, struct error *err);
/** The pools whose runners have something to do: one column. */
RESULT run_waiting_pools(struct pg *pg, struct pg_rows **rows_out, struct error *err);
