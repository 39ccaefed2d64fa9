/*
 * runner/kubernetes/kubernetes.h -- jobs of a Kubernetes cluster: started, found again, ended; and whose pod a token is.
 *
 * Kubernetes is not trusted: a job is a place where a run happens, and the cluster's report of its end proves nothing. The cluster
 * gets no secret: an opaque name, sizes, digests of images. docs/kubernetes.md says what its administrators can do.
 *
 * The API is reached by https alone, with a token of a service account that may do little (packaging/kubernetes/sijil.yaml).
 */
#pragma once

#include <stdatomic.h>

#include "base/json.h"

#define KUBERNETES_NAME_SIZE         64 /* of a job, a namespace, a queue, a node */
#define KUBERNETES_UID_SIZE          64 /* of an object; 36 characters in practice */
#define KUBERNETES_TEXT_SIZE         128
#define KUBERNETES_MESSAGE_SIZE      1024
#define KUBERNETES_WORDS_MAX         32
#define KUBERNETES_JURISDICTIONS_MAX 16
#define KUBERNETES_AUDIENCE          "sijil"
#define KUBERNETES_PAYLOAD_USER      64002
#define KUBERNETES_ACCOUNT           "sijil-run" /* the service account of pods: no right at all */

struct kubernetes_options {
    const char *url;             /* "https://HOST:PORT" */
    const char *ca_file;         /* NULL: the system's authorities */
    const char *token_file;      /* of a service account; read for each call, because the kubelet renews it */
    const char *space;           /* the namespace of the jobs */
    const atomic_bool *gives_up; /* NULL: never */
};

struct kubernetes;
/** Asks for the version of the API. ERROR_INVALID for options; ERROR_UNAVAILABLE, ERROR_DENIED. */
RESULT kubernetes_open(const struct kubernetes_options *options, struct kubernetes **kubernetes_out, struct error *err);
/** "v1.35.4" */
const char *kubernetes_version(const struct kubernetes *kubernetes);
void kubernetes_free(struct kubernetes *kubernetes);
DEFINE_OWNED(kubernetes);

/**
 * Whether the namespace confines pods: Pod Security enforces `restricted`, and the NetworkPolicy `sijil-runs` forbids all connections
 * of all pods. ERROR_DENIED says what is missing. It does not show that the cluster's network enforces the policy: the pod shows that.
 */
RESULT kubernetes_check_place(struct kubernetes *kubernetes, struct error *err);

struct kubernetes_job {
    const char *run;                                         /* a UUID */
    int attempt, node;                                       /* 1 to 100; 0 to 255. The three make the name */
    const char *agent_image, *payload_image;                 /* "HOST/REPOSITORY@sha256:..." */
    const char *queue;                                       /* of Kueue, which lets the job begin; NULL: it begins at once */
    const char *region;                                      /* "local/dxb": of the node, by its label; NULL: any, for trials */
    size_t jurisdiction_count;                               /* jurisdictions of the node, by its labels */
    const char *jurisdictions[KUBERNETES_JURISDICTIONS_MAX]; /* "AE" */
    int64_t cpus, memory_bytes;                              /* of the payload */
    int64_t input_bytes, output_bytes;                       /* volumes in memory */
    int64_t deadline_s, grace_s; /* deadline: from the job's beginning, with all that the agent does */
    const char *runner;          /* a UUID: whose job it is, for kubernetes_sweep(); NULL: nobody's */
    int64_t ttl_s;               /* how long the cluster keeps an ended job that nobody removes; 0: an hour */
    int64_t payload_user;        /* 0: KUBERNETES_PAYLOAD_USER */
    bool has_tasks;              /* the payload's first program lets tasks talk to each other */
    const char *device;          /* "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"; NULL: none */
    int64_t devices;             /* how many */
    size_t word_count;           /* the agent's program and its arguments */
    const char *words[KUBERNETES_WORDS_MAX];
};

enum kubernetes_state {
    KUBERNETES_NONE, /* there is no such job (any more), and no pod of it */
    KUBERNETES_WAITING,
    KUBERNETES_RUNNING,
    KUBERNETES_COMPLETED,
    KUBERNETES_FAILED,
    KUBERNETES_TIMEOUT, /* its deadline */
    KUBERNETES_MEMORY,  /* the kernel ended the payload, because its memory was used up */
    KUBERNETES_LOST,    /* its node failed, or it was evicted, preempted or deleted */
    KUBERNETES_ENDING   /* somebody deletes it; its pod may still run */
};
/** "none", "waiting", ... */
const char *kubernetes_state_name(enum kubernetes_state state);

/** The cluster's report of a job; texts have only printable ASCII. */
struct kubernetes_status {
    enum kubernetes_state state;
    int exit, signal;      /* of the payload's container, after its end */
    bool agent_has_failed; /* its container has ended, with a failure of its own */
    char uid[KUBERNETES_UID_SIZE], pod_uid[KUBERNETES_UID_SIZE], node[KUBERNETES_NAME_SIZE];
    char reason[KUBERNETES_TEXT_SIZE];     /* the cluster's words, such as "OOMKilled", "ImagePullBackOff" */
    char message[KUBERNETES_MESSAGE_SIZE]; /* the agent's last words */
};

/**
 * Starts the job, unless there is one of its name; then it returns the status of that job. So a run's attempt never starts twice. ERROR_CONFLICT:
 * the job of this name was made of something else. ERROR_INVALID, ERROR_DENIED, ERROR_UNAVAILABLE; ERROR_UNCERTAIN: the answer was lost, so
 * call it again.
 */
RESULT kubernetes_start(struct kubernetes *kubernetes, const struct kubernetes_job *job, struct kubernetes_status *status_out,
                        struct error *err);
/** Of a job, `run`, `attempt` and `node` are enough for the next two. KUBERNETES_NONE is no error. */
RESULT kubernetes_find(struct kubernetes *kubernetes, const struct kubernetes_job *job, struct kubernetes_status *status_out,
                       struct error *err);
/** Deletes the job and its pod, which gets its grace. It is no error if there is none. The job is gone when it is KUBERNETES_NONE. */
RESULT kubernetes_cancel(struct kubernetes *kubernetes, const struct kubernetes_job *job, struct error *err);
/** Deletes all jobs of this runner, for a runner that has just begun: the process that made the jobs has ended. */
RESULT kubernetes_sweep(struct kubernetes *kubernetes, const char *runner, size_t *count_out, struct error *err);

/** The pod that a token must be of. */
struct kubernetes_holder {
    const char *account;     /* of the namespace that was opened */
    const char *pod_uid;     /* of the job's status */
    const json_t *node_uids; /* texts; NULL: of any node, whose place is only declared */
};
/**
 * Has the cluster review the token of a pod (TokenReview): issued for KUBERNETES_AUDIENCE, bound to this pod on this node, and still
 * valid. ERROR_DENIED says what is wrong, also if the cluster does not say the node (before Kubernetes 1.32). The token goes to the
 * cluster alone, and is wiped.
 */
RESULT kubernetes_review(struct kubernetes *kubernetes, struct bytes token, const struct kubernetes_holder *holder,
                         struct error *err);
