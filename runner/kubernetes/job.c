/* A job by its name: started once, found again, deleted. */
#include <stdio.h>
#include <string.h>

#include "runner/kubernetes/kubernetes_priv.h"

#define BODY_MAX  131072
#define SWEEP_MAX 100 /* more than runs at a time: jobs of 8 KiB fit into one answer */

static void jobs_path(const struct kubernetes *kubernetes, const char *name, char path_out[KUBERNETES_PATH_SIZE])
{
    (void)snprintf(path_out, KUBERNETES_PATH_SIZE, "/apis/batch/v1/namespaces/%s/jobs%s%s", kubernetes->space,
                   name[0] == '\0' ? "" : "/", name);
}

static struct result get_pods(struct kubernetes *kubernetes, const char *name, json_t **pods_out, struct error *err)
{
    char path[KUBERNETES_PATH_SIZE];

    (void)snprintf(path, sizeof path, "/api/v1/namespaces/%s/pods?limit=4&labelSelector=sijil%%2Fjob%%3D%s", kubernetes->space,
                   name);
    return kubernetes_call(kubernetes, "GET", path, (struct bytes){0}, pods_out, err);
}

/* The job's object; NULL: there is none. */
static struct result get_job(struct kubernetes *kubernetes, const char *name, json_t **job_out, struct error *err)
{
    char path[KUBERNETES_PATH_SIZE];

    jobs_path(kubernetes, name, path);
    const struct result got = kubernetes_call(kubernetes, "GET", path, (struct bytes){0}, job_out, err);
    if (got.ok || err->kind != ERROR_NOT_FOUND) return got;
    *job_out = NULL;
    return SUCCESS;
}

static struct result status_of(struct kubernetes *kubernetes, const char *name, const json_t *job,
                               struct kubernetes_status *status_out, struct error *err)
{
    OWNED_JSON pods = NULL;

    TRY(get_pods(kubernetes, name, &pods, err));
    return kubernetes_read_status(job, pods, status_out, err);
}

struct result kubernetes_find(struct kubernetes *kubernetes, const struct kubernetes_job *job,
                              struct kubernetes_status *status_out, struct error *err)
{
    OWNED_JSON found = NULL;
    char name[KUBERNETES_NAME_SIZE];

    TRY(kubernetes_job_name(job, name, err));
    TRY(get_job(kubernetes, name, &found, err));
    return status_of(kubernetes, name, found, status_out, err);
}

static struct result take_over(struct kubernetes *kubernetes, const char *name, const char *digest,
                               struct kubernetes_status *status_out, struct error *err)
{
    OWNED_JSON found = NULL;

    TRY(get_job(kubernetes, name, &found, err));
    if (found == NULL) return failure(err, ERROR_UNCERTAIN, "the job %s was there, and is gone", name);
    if (!kubernetes_is_made_of(found, digest))
        return failure(err, ERROR_CONFLICT, "the cluster has a job %s that this runner would make of something else", name);
    return status_of(kubernetes, name, found, status_out, err);
}

struct result kubernetes_start(struct kubernetes *kubernetes, const struct kubernetes_job *job,
                               struct kubernetes_status *status_out, struct error *err)
{
    struct buffer OWNED_BUFFER body = BUFFER(BODY_MAX);
    OWNED_JSON made = NULL;
    char name[KUBERNETES_NAME_SIZE], path[KUBERNETES_PATH_SIZE], digest[DIGEST_TEXT_SIZE];

    TRY(kubernetes_job_name(job, name, err));
    TRY(kubernetes_manifest(kubernetes, job, &body, digest, err));
    jobs_path(kubernetes, "", path);
    const struct result created = kubernetes_call(kubernetes, "POST", path, buffer_bytes(&body), &made, err);
    if (!created.ok && err->kind == ERROR_CONFLICT) return take_over(kubernetes, name, digest, status_out, err);
    TRY(created);
    return kubernetes_read_status(made, NULL, status_out, err);
}

/* With the object's own number, so that a later job of this name stays. In the foreground: the job is there as long as its pod is. */
static struct result delete (struct kubernetes *kubernetes, const char *name, const char *uid, struct error *err)
{
    struct buffer OWNED_BUFFER body = BUFFER(1024);
    OWNED_JSON options = json_pack("{s:s s:s s:s s:{s:s}}", "apiVersion", "v1", "kind", "DeleteOptions", "propagationPolicy",
                                   "Foreground", "preconditions", "uid", uid);
    OWNED_JSON answer = NULL;
    char path[KUBERNETES_PATH_SIZE];

    if (options == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the end of a job");
    TRY(json_write_canonical(&body, options, err));
    jobs_path(kubernetes, name, path);
    const struct result deleted = kubernetes_call(kubernetes, "DELETE", path, buffer_bytes(&body), &answer, err);
    return !deleted.ok && err->kind == ERROR_NOT_FOUND ? SUCCESS : deleted; /* it has gone meanwhile */
}

struct result kubernetes_cancel(struct kubernetes *kubernetes, const struct kubernetes_job *job, struct error *err)
{
    OWNED_JSON found = NULL;
    char name[KUBERNETES_NAME_SIZE], uid[KUBERNETES_UID_SIZE];

    TRY(kubernetes_job_name(job, name, err));
    TRY(get_job(kubernetes, name, &found, err));
    if (found == NULL) return SUCCESS;
    kubernetes_copy_text(uid, sizeof uid, json_text_of(json_object_get(found, "metadata"), "uid"));
    if (json_object_get(json_object_get(found, "metadata"), "deletionTimestamp") != NULL) return SUCCESS;
    return delete (kubernetes, name, uid, err);
}

/* ---- What a runner that is gone has left ---- */

static struct result delete_each(struct kubernetes *kubernetes, const json_t *jobs, size_t *count_out, struct error *err)
{
    const json_t *job;
    size_t i;

    json_array_foreach (jobs, i, job) {
        const json_t *about = json_object_get(job, "metadata");
        const char *name = json_text_of(about, "name"), *uid = json_text_of(about, "uid");
        if (name == NULL || uid == NULL || !kubernetes_is_name(name) || strlen(uid) >= KUBERNETES_UID_SIZE)
            return failure(err, ERROR_UNAVAILABLE, "an answer of the Kubernetes API has a job without a name");
        if (json_object_get(about, "deletionTimestamp") != NULL) continue;
        TRY(delete (kubernetes, name, uid, err));
        ++*count_out;
    }
    return SUCCESS;
}

struct result kubernetes_sweep(struct kubernetes *kubernetes, const char *runner, size_t *count_out, struct error *err)
{
    OWNED_JSON found = NULL;
    char path[KUBERNETES_PATH_SIZE];
    size_t count = 0;

    if (!kubernetes_is_name(runner)) return failure(err, ERROR_INVALID, "a job's runner is a UUID");
    (void)snprintf(path, sizeof path, "/apis/batch/v1/namespaces/%s/jobs?limit=%d&labelSelector=sijil%%2Frunner%%3D%s",
                   kubernetes->space, SWEEP_MAX, runner);
    TRY(kubernetes_call(kubernetes, "GET", path, (struct bytes){0}, &found, err));
    const json_t *jobs = json_object_get(found, "items");
    if (!json_is_array(jobs)) return failure(err, ERROR_UNAVAILABLE, "an answer of the Kubernetes API has no list of jobs");
    TRY(delete_each(kubernetes, jobs, &count, err));
    *count_out = count;
    return SUCCESS;
}
