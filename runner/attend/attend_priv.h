/*
 * runner/attend/attend_priv.h -- the parts of one run in a pod.
 */
#pragma once

#include "crypto/digest.h"
#include "runner/attend/attend.h"
#include "runner/sandbox/outputs.h"
#include "runner/sandbox/work.h"
#include "runner/talk/talk.h"

#define ATTEND_STEP_MS 200 /* the longest time between two looks at the clock and at a request to stop */

struct attending {
    const struct attend_run *about;
    const struct sandbox_options *options;
    struct sandbox_report report;
    struct work work;
    int out; /* the folder of the outputs that came */
    struct kubernetes *cluster;
    struct kubernetes_job job;
    struct kubernetes_status status; /* as it was when it was last looked at */
    bool has_job;
    char port[8], runner[UUID_TEXT_SIZE];
    struct talk_door *door;
    struct talk *talk;
    struct talk_message message;
    struct hasher *log;
    int64_t until_ms;            /* for a pod that has not begun */
    int64_t look_at_ms;          /* when the cluster is asked next */
    int64_t began_ms, second_ms; /* second_ms: when each_second() is due */
    struct cgroup_use use;       /* as the pod told it last */
};

/** attend_meet.c: until the pod is shown to be closed. */
RESULT attend_meet(struct attending *attending, struct error *err);
/** attend_watch.c: from the inputs to the end of the program. */
RESULT attend_send_inputs(struct attending *attending, struct error *err);
RESULT attend_watch(struct attending *attending, struct error *err);
/** Takes the outputs into this machine's folder, and applies the rules of outputs again. */
RESULT attend_take_outputs(struct attending *attending, struct error *err);
bool attend_is_cancelled(const struct attending *attending);

/** Walks `name`, "code" or "in", of the inputs on this machine, with the rules of inputs; `walk` has what is done with each file. */
RESULT attend_walk_inputs(const struct attending *attending, const char *name, struct output_walk *walk, struct error *err);
/** The words of the agent's last message, cut, and safe to show; `otherwise` if the message has none. */
void attend_said(const struct attending *attending, const char *otherwise, char *text_out, size_t size);
