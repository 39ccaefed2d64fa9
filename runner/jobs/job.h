/*
 * runner/jobs/job.h -- the socket at which a scheduler's jobs tell the runner of their node that they have begun.
 *
 * A job sends one wish (wish.h) and stays connected. While it is connected, the runner may run what the job names: when the job ends, the
 * connection ends, and so does the run. The runner sends one word, and closes: JOB_RAN or JOB_NOTHING.
 */
#pragma once

#include <signal.h>
#include <sys/types.h>

#include "base/owned.h"
#include "runner/jobs/wish.h"

#define JOB_SOCKET  "/run/sijil-runner/jobs"
#define JOB_RAN     "ran"     /* this runner had the run; only the registry knows how it ended */
#define JOB_NOTHING "nothing" /* no run was started for the job */

/* --- the runner --- */

struct job_door;
/** Listens at `path`. Besides root and this process's own user, only the user `caller` is heard. ERROR_INVALID, ERROR_UNAVAILABLE. */
RESULT job_door_open(const char *path, uid_t caller, struct job_door **door_out, struct error *err);
int job_door_descriptor(const struct job_door *door);
/** The next connection, which does not block; -1: there is none. Connections of other users are closed. */
int job_door_accept(const struct job_door *door);
/** The socket's name is removed. */
void job_door_free(struct job_door *door);
DEFINE_OWNED(job_door);

enum job_word { JOB_SILENT, JOB_WISHES, JOB_GONE };
/** Does not wait. JOB_GONE: the job has ended, or has sent something that is no wish; `err` says which. */
enum job_word job_hear(int connection, struct job_wish *wish_out, struct error *err);
/** Whether the job has ended. Does not wait. */
bool job_is_gone(int connection);
/** Sends the word, and closes. */
void job_dismiss(int connection, const char *word);

/* --- the job --- */

/** Sends the wish, and waits until the runner has finished with it. *ran_out: whether it had the run. ERROR_UNAVAILABLE: there is no runner, or it has
 *  ended; ERROR_CONFLICT: `stops` became other than 0. */
RESULT job_wait(const char *path, struct bytes wish, const volatile sig_atomic_t *stops, bool *ran_out, struct error *err);
