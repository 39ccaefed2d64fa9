/*
 * runner/sandbox/sandbox_priv.h -- the parts of one run.
 */
#pragma once

#include <sys/types.h>

#include "runner/sandbox/sandbox.h"
#include "runner/sandbox/work.h"
#include "supervision/child_pipe.h"

struct sandbox {
    const struct sandbox_options *options;
    struct sandbox_report report;
    struct cgroup_place place;
    struct cgroup *cgroup; /* NULL with rlimits */
    struct work work;
    struct user user;
    bool changes_user;
    int arguments, filter; /* files in memory */
    int channel[2];        /* ours, theirs */
    int out, beat;         /* folders inside */
    struct child_output *printed;
    struct hasher *log;
    pid_t keeper, payload; /* the process that holds the tree; the first inside */
    int status;            /* of waitpid(2) */
    int64_t began_ms, ended_ms, word_us;
    int64_t beat_ns;         /* the time of change of the heartbeat file at the last read */
    struct buffer complaint; /* bwrap's messages before the program begins */
    int64_t second_ms;       /* when each_second() is due */
    bool has_begun;
};

/** sandbox_prepare.c: isolation, user, folder, copies, files in memory. */
RESULT sandbox_prepare_run(struct sandbox *sandbox, struct error *err);
/** sandbox_start.c: from the start of bwrap(1) to the program's first instruction. */
RESULT sandbox_start(struct sandbox *sandbox, struct error *err);
/** sandbox_watch.c: until no process is left. */
RESULT sandbox_watch(struct sandbox *sandbox, struct error *err);
/** Ends all processes at once and waits for them. */
void sandbox_kill(struct sandbox *sandbox);
/** Takes a piece of the program's output (child_output_options.take); `context` is the sandbox. */
RESULT sandbox_take_log(void *context, enum child_stream stream, struct bytes piece, struct error *err);
