/* What the cluster says of a job and its pod, in its own words, as one state. A state that the words do not name is LOST: the heartbeat decides. */
#include <string.h>

#include "runner/kubernetes/kubernetes_priv.h"

static bool is_text(const json_t *object, const char *key, const char *wanted)
{
    const char *text = json_text_of(object, key);

    return text != NULL && strcmp(text, wanted) == 0;
}

/* The condition of this type that is true; NULL: none. */
static const json_t *condition(const json_t *status, const char *type)
{
    const json_t *each;
    size_t i;

    json_array_foreach (json_object_get(status, "conditions"), i, each)
        if (is_text(each, "type", type) && is_text(each, "status", "True")) return each;
    return NULL;
}

static const json_t *metadata_of(const json_t *object)
{
    return json_object_get(object, "metadata");
}

static const json_t *container_status(const json_t *pod, const char *list, const char *name)
{
    const json_t *each;
    size_t i;

    json_array_foreach (json_object_get(json_object_get(pod, "status"), list), i, each)
        if (is_text(each, "name", name)) return each;
    return NULL;
}

static const json_t *state_of(const json_t *pod, const char *name, const char *kind)
{
    return json_object_get(json_object_get(container_status(pod, "containerStatuses", name), "state"), kind);
}

/* A number from 0 to `most`, or -1. */
static int small_number(const json_t *object, const char *key, int most)
{
    int64_t number = -1;

    return json_integer_of(object, key, &number) && number >= 0 && number <= most ? (int)number : -1;
}

/* The job's own pod; NULL: none. Pods with another owner do not count. */
static const json_t *pod_of_job(const json_t *pods, const char *uid)
{
    const json_t *pod, *owner;
    size_t i, k;

    json_array_foreach (json_object_get(pods, "items"), i, pod)
        json_array_foreach (json_object_get(metadata_of(pod), "ownerReferences"), k, owner)
            if (is_text(owner, "uid", uid) && is_text(owner, "kind", "Job")) return pod;
    return NULL;
}

/* The agent failed, or never started: its words are the reason, unless the payload has some. With a signal the node ended it. */
static void read_agent(const json_t *pod, struct kubernetes_status *status)
{
    const json_t *ended = state_of(pod, "agent", "terminated");

    status->agent_has_failed = small_number(ended, "exitCode", 128) > 0;
    kubernetes_copy_text(status->message, sizeof status->message, json_text_of(ended, "message"));
}

/* Why a container can't begin, such as ImagePullBackOff. */
static const char *reason_of_waiting(const json_t *pod)
{
    static const char *const names[] = {"payload", "agent"};

    for (size_t i = 0; i < 2; i++) {
        const char *reason = json_text_of(state_of(pod, names[i], "waiting"), "reason");
        if (reason != NULL && strcmp(reason, "PodInitializing") != 0 && strcmp(reason, "ContainerCreating") != 0) return reason;
    }
    const json_t *place =
        json_object_get(json_object_get(container_status(pod, "initContainerStatuses", "place"), "state"), "waiting");
    const json_t *unplaced = NULL, *each;
    size_t i;
    json_array_foreach (json_object_get(json_object_get(pod, "status"), "conditions"), i, each)
        if (is_text(each, "type", "PodScheduled") && is_text(each, "status", "False")) unplaced = each;
    return unplaced != NULL ? json_text_of(unplaced, "reason") : json_text_of(place, "reason");
}

static bool was_disrupted(const json_t *pod)
{
    static const char *const lost[] = {"Evicted",    "NodeLost",    "NodeAffinity", "NodeShutdown",
                                       "Terminated", "Preempting",  "Shutdown",     "UnexpectedAdmissionError",
                                       "OutOfcpu",   "OutOfmemory", "OutOfpods"};
    const json_t *status = json_object_get(pod, "status");

    if (condition(status, "DisruptionTarget") != NULL) return true;
    for (size_t i = 0; i < sizeof lost / sizeof lost[0]; i++)
        if (is_text(status, "reason", lost[i])) return true;
    return false;
}

static void read_payload(const json_t *pod, struct kubernetes_status *status)
{
    const json_t *ended = state_of(pod, "payload", "terminated");
    const int code = small_number(ended, "exitCode", 255), signal = small_number(ended, "signal", 64);

    if (ended == NULL) return;
    status->exit = code < 0 ? 255 : code;
    status->signal = signal < 0 ? (status->exit > 128 && status->exit <= 192 ? status->exit - 128 : 0) : signal;
    if (status->reason[0] == '\0') kubernetes_copy_text(status->reason, sizeof status->reason, json_text_of(ended, "reason"));
}

/* The state of a failed job, if its deadline was not the reason. */
static enum kubernetes_state failure_of(const json_t *pod, struct kubernetes_status *status)
{
    const json_t *ended = state_of(pod, "payload", "terminated");

    if (pod == NULL) return KUBERNETES_LOST; /* deleted */
    if (was_disrupted(pod)) {
        const json_t *why = condition(json_object_get(pod, "status"), "DisruptionTarget");
        const char *reason = json_text_of(why == NULL ? json_object_get(pod, "status") : why, "reason");
        kubernetes_copy_text(status->reason, sizeof status->reason, reason);
        return KUBERNETES_LOST;
    }
    if (is_text(ended, "reason", "OOMKilled")) return KUBERNETES_MEMORY;
    if (ended == NULL || is_text(ended, "reason", "ContainerStatusUnknown")) return KUBERNETES_LOST;
    return KUBERNETES_FAILED;
}

static enum kubernetes_state open_state(const json_t *job, const json_t *pod, struct kubernetes_status *status)
{
    if (json_is_true(json_object_get(json_object_get(job, "spec"), "suspend"))) {
        kubernetes_copy_text(status->reason, sizeof status->reason, "Suspended");
        return KUBERNETES_WAITING;
    }
    if (pod != NULL && json_object_get(metadata_of(pod), "deletionTimestamp") != NULL) { /* its containers get TERM now */
        const json_t *why = condition(json_object_get(pod, "status"), "DisruptionTarget");
        kubernetes_copy_text(status->reason, sizeof status->reason, why == NULL ? "Deleted" : json_text_of(why, "reason"));
        return KUBERNETES_ENDING;
    }
    if (pod != NULL && is_text(json_object_get(pod, "status"), "phase", "Running")) return KUBERNETES_RUNNING;
    if (pod != NULL) kubernetes_copy_text(status->reason, sizeof status->reason, reason_of_waiting(pod));
    return KUBERNETES_WAITING;
}

static enum kubernetes_state read_state(const json_t *job, const json_t *pod, struct kubernetes_status *status)
{
    const json_t *said = json_object_get(job, "status"), *failed = condition(said, "Failed");

    if (condition(said, "Complete") != NULL) return KUBERNETES_COMPLETED;
    if (failed == NULL && json_object_get(metadata_of(job), "deletionTimestamp") != NULL) return KUBERNETES_ENDING;
    if (failed == NULL) return open_state(job, pod, status);
    if (is_text(failed, "reason", "DeadlineExceeded")) {
        kubernetes_copy_text(status->reason, sizeof status->reason, "DeadlineExceeded");
        return KUBERNETES_TIMEOUT;
    }
    return failure_of(pod, status);
}

struct result kubernetes_read_status(const json_t *job, const json_t *pods, struct kubernetes_status *status_out,
                                     struct error *err)
{
    struct kubernetes_status status = {.state = KUBERNETES_NONE};

    if (pods != NULL && !json_is_array(json_object_get(pods, "items")))
        return failure(err, ERROR_UNAVAILABLE, "an answer of the Kubernetes API has no list of pods");
    if (job == NULL) {
        status.state = json_array_size(json_object_get(pods, "items")) > 0 ? KUBERNETES_ENDING : KUBERNETES_NONE;
        *status_out = status;
        return SUCCESS;
    }
    kubernetes_copy_text(status.uid, sizeof status.uid, json_text_of(metadata_of(job), "uid"));
    if (status.uid[0] == '\0' || !is_text(job, "kind", "Job"))
        return failure(err, ERROR_UNCERTAIN, "an answer of the Kubernetes API is no job");
    const json_t *pod = pod_of_job(pods, status.uid);
    status.state = read_state(job, pod, &status);
    kubernetes_copy_text(status.pod_uid, sizeof status.pod_uid, json_text_of(metadata_of(pod), "uid"));
    kubernetes_copy_text(status.node, sizeof status.node, json_text_of(json_object_get(pod, "spec"), "nodeName"));
    read_payload(pod, &status);
    read_agent(pod, &status);
    *status_out = status;
    return SUCCESS;
}

bool kubernetes_is_made_of(const json_t *job, const char *digest)
{
    return is_text(json_object_get(metadata_of(job), "annotations"), KUBERNETES_DIGEST, digest);
}
