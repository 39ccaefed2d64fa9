/*
 * runner/pods.h -- whether a Kubernetes cluster confines pods: `sijil-runner check --kubernetes`.
 */
#pragma once

#include <signal.h>

#include "runner/kubernetes/kubernetes.h"

struct pods_options {
    struct kubernetes_options cluster;
    const char *image, *region; /* image: with sijil-pod, by digest; NULL: no pod is started. region NULL: on any node */
    const volatile sig_atomic_t *cancelled; /* the trial ends when it is not 0 */
};

/**
 * Looks at the namespace, starts a pod that shows from inside that it is closed in, and removes it. Writes the findings for a person, or as a JSON
 * object. ERROR_DENIED: the cluster does not confine pods; the errors of kubernetes_open() and kubernetes_start().
 */
RESULT pods_text(const struct pods_options *options, struct buffer *text, struct error *err);
RESULT pods_json(const struct pods_options *options, struct buffer *text, struct error *err);
