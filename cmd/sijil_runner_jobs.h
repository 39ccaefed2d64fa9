/* sijil-runner with a scheduler: `serve --slurm`, which has jobs started, and `job`, which is such a job. */
#pragma once

#include "cmd/options.h"
#include "runner/jobs/job.h"
#include "runner/schedule/schedule.h"

struct runner_schedule {
    struct schedule_options options; /* `state` is not set */
    bool was_given;                  /* one of its own options */
};
#define RUNNER_SCHEDULE        \
    ((struct runner_schedule){ \
        .options = {.program = "/usr/bin/sijil-runner", .jobs = JOB_SOCKET, .extra_s = 3600, .patience_ms = 60000}})

/** NULL, or what is wrong. *is_known_out false: the option is another command's. */
const char *runner_schedule_option(struct runner_schedule *settings, int option, bool *is_known_out);
/** Schedules until a signal asks it to stop. Returns the exit status. */
int runner_schedule(const struct runner_schedule *settings, const char *state, const struct slurm_options *slurm,
                    const volatile sig_atomic_t *stops);
/** Tells the runner of this node that its job has begun, and waits for its end. `devices`: numbers that the scheduler gave, or NULL. */
int runner_job(const char *socket, char *const words[2], const char *devices, const volatile sig_atomic_t *stops);
