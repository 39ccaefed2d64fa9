/*
 * runner/serve/links.h -- the jobs of a scheduler that wait for this runner (runner/jobs/job.h): `serve --jobs`.
 *
 * A runner with links asks for nothing by itself: each question to the registry belongs to a job that is connected.
 */
#pragma once

#include "runner/jobs/job.h"

#define LINKS_MAX 128

struct link {
    int connection;
    bool wishes; /* `wish` was heard */
    struct job_wish wish;
    int64_t since_ms; /* monotonic */
};

struct links {
    struct job_door *door; /* NULL: this runner takes no jobs */
    size_t count;
    struct link waiting[LINKS_MAX]; /* the oldest first */
};

/** Takes new connections, hears wishes, and drops jobs that ended or said something else. Does not wait. */
void links_look(struct links *links);
/** Whether a job has said its wish. */
bool links_are_waiting(const struct links *links);
/** Takes the oldest wish out of the list. There must be one. */
struct link links_next(struct links *links);
/** Puts it back as the oldest. */
void links_return(struct links *links, const struct link *link);
/** For a forked process: closes all. The jobs do not notice. */
void links_forget(struct links *links);
/** Sends all jobs away, and closes the door. */
void links_done(struct links *links);
