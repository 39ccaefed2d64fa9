/*
 * client/jobs.h -- runs the same work on many files, a few at a time.
 *
 * Each thread has a session with the same login: the first has the given session, each other one a clone. The first failure ends all
 * jobs: running transfers are cut off, and resume in the next run.
 */
#pragma once

#include "client/session.h"

#define JOBS_MAX     16
#define JOBS_DEFAULT 4

struct jobs {
    size_t count;      /* pieces of work: 0 to count - 1 */
    unsigned parallel; /* 1 to JOBS_MAX */
    /** On any thread, once for each index. */
    RESULT (*work)(void *context, size_t index, struct session *session, struct error *err);
    void *context;
};

/** Returns the first failure and its explanation. */
RESULT jobs_run(const struct jobs *jobs, struct session *session, struct error *err);
