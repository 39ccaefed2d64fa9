/*
 * gateway/background/job_workers.h -- the threads that work on jobs (registry/jobs/job.h), one for each kind, and one for periodic tasks.
 *
 * The periodic tasks drop and record forgotten keys (registry/jobs/forgotten.h), begin the scheduled scrubs and collections, store the
 * times of pulls, and read which projects have a quota of events (gateway/pipeline/event_quota.h).
 *
 * Each thread has a database connection and looks every few seconds for a job without a worker. The maintenance thread
 * (gateway/background/maintenance.h) waits for none of them.
 */
#pragma once

#include "base/owned.h"
#include "base/result.h"

struct gateway;
struct job_workers;

RESULT job_workers_start(struct gateway *gateway, struct job_workers **job_workers_out, struct error *err);
/** A job was created here: the threads look for it now. */
void job_workers_wake(struct job_workers *workers);
/** Releases their jobs, and stops the threads. */
void job_workers_free(struct job_workers *workers);
DEFINE_OWNED(job_workers);
