/*
 * runner/attempt.h -- runs a command in the sandbox that an order would get: `sijil-runner try`.
 */
#pragma once

#include "runner/devices/devices.h"
#include "runner/image/layout.h"
#include "runner/payload/payload.h"

struct attempt_options {
    const char *spec_file, *work, *user, *inside, *cgroup, *code;
    const char *nvml, *devices; /* the driver's library; the folder of device nodes */
    const char *image;          /* a folder with an image layout; NULL: this machine's /usr */
    int64_t image_bytes;        /* of an unpacked image */
    const char *output;         /* a new folder for the outputs; NULL: the outputs are only hashed */
    size_t input_count;
    const char *inputs[RUN_INPUTS_MAX]; /* NAME=PATH */
    size_t added_count;
    const char *added[PAYLOAD_ADDED_MAX]; /* NAME=VALUE, of the node */
    char *const *command;                 /* NULL-terminated; empty: the specification's argv */
    enum isolation least;
    bool has_least, quiet; /* quiet: the program's output is not shown */
    const volatile sig_atomic_t *cancelled;
};

/**
 * *text_out gets the report as JSON. *exit_out gets the exit status: the program's own, 123 if an output could not be copied to the
 * folder, 124 for a timeout, 125 for refused outputs, 128 plus the number of a signal. Meanwhile the program's output goes to our own standard output and standard error,
 * and its heartbeat to standard error.
 */
RESULT attempt_run(const struct attempt_options *options, struct buffer *report, int *exit_out, struct error *err);
/** The report as lines for a person. */
RESULT attempt_text(struct bytes report, struct buffer *text, struct error *err);
