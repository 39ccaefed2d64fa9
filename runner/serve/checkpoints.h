/*
 * runner/serve/checkpoints.h -- keeps the checkpoints of a program while it runs: a thread that looks into /checkpoints of its sandbox.
 *
 * A file or folder there whose name does not begin with '.' is finished: the program has renamed it. The newest one is checked like an output,
 * uploaded under the run's token, and kept by the registry. One that breaks a rule is refused, and the program goes on.
 */
#pragma once

#include "base/owned.h"
#include "runner/calls/calls.h"
#include "training/format/spec.h"

#define CHECKPOINTS_LINE_SIZE 512

struct checkpoints_options {
    const struct http_options *http;
    const uint8_t *session; /* of the runner: CALLS_SESSION_SIZE bytes */
    const struct leased_run *leased;
    const char *host, *repository; /* repository: of the first output */
    const struct buffer *label;    /* the annotation of their manifests */
    const struct run_limits *limits;
    int64_t until_ms; /* wall time: nothing is kept from then on */
};

struct checkpoints;
/** `folder` stays the caller's. The options must live as long. */
RESULT checkpoints_start(const struct checkpoints_options *options, int folder, struct checkpoints **checkpoints_out,
                         struct error *err);
/** Takes the newest line for the run's log, with a line feed: which checkpoint was kept or refused. False: there is none. */
bool checkpoints_say(struct checkpoints *checkpoints, char line_out[CHECKPOINTS_LINE_SIZE]);
/** The program has ended, and nothing changes any more. Waits until the newest one is kept too, if `keeps_last`. */
void checkpoints_end(struct checkpoints *checkpoints, bool keeps_last);
void checkpoints_free(struct checkpoints *checkpoints);
DEFINE_OWNED(checkpoints);
