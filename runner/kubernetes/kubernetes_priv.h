/*
 * runner/kubernetes/kubernetes_priv.h -- shared by the sources of this folder: one call, what a job is made of, and what answers mean.
 */
#pragma once

#include "base/json.h"
#include "crypto/digest.h"
#include "outgoing/call.h"
#include "runner/kubernetes/kubernetes.h"

#define KUBERNETES_ANSWER_MAX (1 << 20) /* a job, or a few pods; etcd takes no larger object */
#define KUBERNETES_PATH_SIZE  256
#define KUBERNETES_TOKEN_MAX  8192
#define KUBERNETES_DIGEST     "sijil/manifest" /* the annotation with the digest of what a job was made of */
#define KUBERNETES_RUNNER     "sijil/runner"   /* the label of a runner's jobs */
#define KUBERNETES_POLICY     "sijil-runs"     /* the NetworkPolicy that forbids all */

struct kubernetes {
    struct outgoing *outgoing;
    char origin[KUBERNETES_PATH_SIZE], token_file[KUBERNETES_PATH_SIZE];
    char space[KUBERNETES_NAME_SIZE], version[KUBERNETES_NAME_SIZE];
    const atomic_bool *gives_up;
};

/** 1 to 63 of a-z, 0-9 and '-', as names of Kubernetes' objects (RFC 1123 labels). */
bool kubernetes_is_name(const char *name);
/** Copies at most size - 1 letters; characters other than printable ASCII become '?'. */
void kubernetes_copy_text(char *text_out, size_t size, const char *text);
/** "sijil-RUN-ATTEMPT-NODE". ERROR_INVALID. */
RESULT kubernetes_job_name(const struct kubernetes_job *job, char name_out[KUBERNETES_NAME_SIZE], struct error *err);

/**
 * One call; `body` is a JSON text, or has no data: none. *answer_out may be NULL for an empty answer. Errors have the API's own words:
 * ERROR_DENIED (401, 403), ERROR_NOT_FOUND, ERROR_CONFLICT, ERROR_INVALID (other 4xx), ERROR_UNAVAILABLE; ERROR_UNCERTAIN: a change may
 * have been made.
 */
RESULT kubernetes_call(struct kubernetes *kubernetes, const char *method, const char *path, struct bytes body,
                       json_t **answer_out, struct error *err);

/** The job's object as canonical JSON, with the digest of all the rest in it. ERROR_INVALID names the wrong part. */
RESULT kubernetes_manifest(const struct kubernetes *kubernetes, const struct kubernetes_job *job, struct buffer *text,
                           char digest_out[DIGEST_TEXT_SIZE], struct error *err);

/* The parts that read answers, for fuzzing. */

/** A job's object, and the list of its pods (NULL: not asked). */
RESULT kubernetes_read_status(const json_t *job, const json_t *pods, struct kubernetes_status *status_out, struct error *err);
/** Whether the object has this digest of the parts that it was made of. */
bool kubernetes_is_made_of(const json_t *job, const char *digest);
/** A TokenReview with its status. */
RESULT kubernetes_read_review(const json_t *answer, const char *space, const struct kubernetes_holder *holder, struct error *err);
/** What is missing for a place; NULL: nothing. */
const char *kubernetes_lacks_security(const json_t *space);
const char *kubernetes_lacks_policy(const json_t *policy);
