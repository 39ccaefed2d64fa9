/*
 * cmd/sijil_runner_pods.h -- `sijil-runner check --kubernetes`: its options, and the check.
 */
#pragma once

#include "cmd/options.h"
#include "runner/pods.h"

/** Whether it is an option of a Kubernetes cluster; its value is optarg. */
bool runner_pods_option(struct pods_options *settings, int option);
/** Looks at the cluster, and shows what it found. Returns the exit status. */
int runner_pods_check(const struct pods_options *settings, bool json);
