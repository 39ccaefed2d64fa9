/*
 * client/jobs.h -- the same work on many files, a few at a time.
 *
 * Each job has a session with the same login: the first the given one, each other one its own. The first failure ends all: whoever still transfers is cut off, and
 * goes on from there in the next run.
 */
#pragma once

#include "client/session.h"

#define JOBS_MAX     16
#define JOBS_DEFAULT 4

struct jobs {
    size_t count;                 /* pieces of work: 0 to count - 1 */
    unsigned at_once;             /* 1 to JOBS_MAX */
    /** Any thread, each index once. */
    RESULT (*work)(void *context, size_t index, struct session *session, struct error *err);
    void *context;
};

/** The failure, and its explanation, are those of the first that failed. */
RESULT jobs_run(const struct jobs *jobs, struct session *session, struct error *err);
