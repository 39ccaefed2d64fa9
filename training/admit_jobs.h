/*
 * training/admit_jobs.h -- the server's own work on finished runs: decides them once more, has sijil-keyd sign their admissions, and makes their
 * outputs artifacts of the registry (docs/runs.md, "Admission").
 *
 * Closed to handlers (tests/lint/closed_headers.txt): each step records its own permit.
 */
#pragma once

#include "registry/registry.h"
#include "training/bundle.h"

#define RUN_RESULT_CHANNEL \
    "sijil_run_result" /* PostgreSQL notifies: a run waits for its admission (migrations/0051_run_results.sql) */

/** `bundle.pg` also needs run_result_table, held_manifest_statements, and the tables of pushes and uploads. */
struct run_admit_source {
    struct run_bundle_source bundle;
    struct registry *registry;
};
/**
 * Takes the oldest finished run that no gateway works on. Admits it, or quarantines it with the reason if a check fails for good. *found_out false: there is
 * no such run. After another failure the run is tried again, each time later, from 20 s to 5 minutes; *found_out is written then, too. Blocks for seconds.
 */
RESULT run_admit_next(const struct run_admit_source *source, const char *instance, bool *found_out, struct error *err);
