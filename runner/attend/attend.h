/*
 * runner/attend/attend.h -- runs one untrusted program in a pod of a Kubernetes cluster (docs/kubernetes.md).
 *
 * This process stays outside. It makes a job, waits for the agent of the job's pod, and has the cluster review the agent's token: the pod of this job, on a node that was
 * enrolled. Then code, inputs, command and environment go to the pod, and log and outputs come back, through one connection (runner/talk/talk.h). If this process ends,
 * so does the program.
 */
#pragma once

#include "documents/format/runner_key.h"
#include "runner/devices/declared.h"
#include "runner/kubernetes/kubernetes.h"
#include "runner/sandbox/sandbox.h"

#define ATTEND_PORTS_MAX 64

/** Where the pods of a runner are made. */
struct attend_place {
    struct kubernetes_options cluster;
    const char *agent_image, *payload_image; /* by digest; payload: of runs without an image of their own */
    const char *queue;                       /* of Kueue, or NULL */
    const char *listen, *address;            /* IP addresses: where this machine listens; what agents connect to */
    unsigned port, ports;                    /* one port for each run at a time */
    int64_t patience_ms;                     /* until a pod has begun */
    struct declared_devices devices;         /* that pods may have */
};

/** One run there. */
struct attend_run {
    const struct attend_place *place;
    const struct runner_key *own; /* region, jurisdictions and nodes that were enrolled */
    const char *run;              /* a UUID */
    int attempt, node;
    const char *image;  /* that the order names, by digest; NULL: the place's */
    const char *device; /* the resource of its devices; NULL: none */
    int64_t devices;
};

/**
 * As sandbox_run(). Ignores the user, the control group, the image and the bound devices of `options`. ERROR_UNAVAILABLE, before the program has begun: the cluster gave no pod,
 * another attempt may get one. ERROR_DENIED: the pod is not closed, or no agent proved itself. If the pod is gone later, the report says why (`lost`).
 */
RESULT attend_run(const struct attend_run *about, const struct sandbox_options *options, struct sandbox_report *report_out,
                  struct error *err);

/** Whether this process can listen for agents at that place. ERROR_INVALID, ERROR_CONFLICT, ERROR_UNAVAILABLE. */
RESULT attend_check(const struct attend_place *place, struct error *err);

/** Whether the cluster takes this runner's token now, and its namespace still confines pods. ERROR_DENIED, ERROR_UNAVAILABLE; also when *gives_up is true. */
RESULT attend_may_begin(const struct attend_place *place, const atomic_bool *gives_up, struct error *err);

/** What follows from the limits that a container sees: the isolation of the run. ERROR_DENIED: they do not enforce the order's limits. Pure. */
RESULT attend_judge(const char *const seen[3], const struct run_limits *limits, enum isolation *isolation_out, struct error *err);
