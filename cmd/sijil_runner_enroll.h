/* sijil-runner enroll and show: the commands that use a runner's state folder without running anything. */
#pragma once

#include <signal.h>
#include <stdbool.h>

#include "runner/enrolment/enroll.h"

struct runner_enroll {
    struct enroll_options options;
    bool waits; /* for the approval */
    bool json;
};
#define RUNNER_ENROLL ((struct runner_enroll){.options = {.state = RUNNER_STATE_FOLDER}})

/** NULL, or what is wrong. *is_known_out false: the option is another command's. */
const char *runner_enroll_option(struct runner_enroll *settings, int option, bool *is_known_out);
/** Each returns the exit status. */
int runner_enroll(const struct runner_enroll *settings, const volatile sig_atomic_t *cancelled);
int runner_show(const struct runner_enroll *settings);
