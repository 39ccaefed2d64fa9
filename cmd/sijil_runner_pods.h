/*
 * cmd/sijil_runner_pods.h -- `sijil-runner check --kubernetes`: its options, and the check.
 */
#pragma once

#include "cmd/options.h"
#include "runner/attend/attend.h"
#include "runner/pods.h"

struct runner_pods {
    struct pods_options check;
    struct attend_place place; /* for serve; its cluster and agent are those of `check` */
    char listen[64];           /* what place.listen points at */
    bool has_check_option, has_serve_option;
};
#define RUNNER_PODS ((struct runner_pods){.check = {.cluster = {.space = "sijil-runs"}}, .place = {.patience_ms = 600000}})

/** NULL, or what is wrong with the option's value, which is optarg. *is_known_out: whether it is an option of a Kubernetes cluster. */
const char *runner_pods_option(struct runner_pods *settings, int option, bool *is_known_out);
/** Finishes the place of pods for serve. NULL, or what is missing. */
const char *runner_pods_place(struct runner_pods *settings, uint64_t parallel);
/** Looks at the cluster, and shows what it found. Returns the exit status. */
int runner_pods_check(const struct pods_options *settings, bool json);
