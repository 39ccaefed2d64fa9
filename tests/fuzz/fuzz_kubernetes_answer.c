/* Answers of a Kubernetes API: a job with its pods, a review of a token, a namespace, a policy. What is accepted is within its bounds; a review is
 * accepted only if it says so. */
#include <assert.h>
#include <string.h>

#include "runner/kubernetes/kubernetes_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text, size_t size)
{
    assert(strlen(text) < size);
    for (; *text != '\0'; text++) assert(*text >= ' ' && *text <= '~');
}

static void check_status(const struct kubernetes_status *status)
{
    check_text(status->uid, sizeof status->uid);
    check_text(status->pod_uid, sizeof status->pod_uid);
    check_text(status->node, sizeof status->node);
    check_text(status->reason, sizeof status->reason);
    check_text(status->message, sizeof status->message);
    assert(status->exit >= 0 && status->exit <= 255 && status->signal >= 0 && status->signal <= 64);
    assert(kubernetes_state_name(status->state) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED_JSON answer = NULL;
    OWNED_JSON nodes = json_pack("[s]", "node-1");
    const struct kubernetes_holder holder = {.account = "sijil-run", .pod_uid = "pod-1", .node_uids = nodes};
    struct kubernetes_status status;
    struct error err = {0};

    if (!json_read_any_number((struct bytes){data, size}, KUBERNETES_ANSWER_MAX, &answer, &err).ok) return 0;
    const json_t *job = json_object_get(answer, "job"), *pods = json_object_get(answer, "pods");
    if (kubernetes_read_status(job == NULL ? answer : job, pods, &status, &err).ok) check_status(&status);
    if (kubernetes_read_status(NULL, pods == NULL ? answer : pods, &status, &err).ok) check_status(&status);
    (void)kubernetes_is_made_of(answer, "sha256:0");
    (void)kubernetes_lacks_policy(answer);
    (void)kubernetes_lacks_security(answer);
    if (kubernetes_read_review(answer, "sijil-runs", &holder, &err).ok)
        assert(json_is_true(json_object_get(json_object_get(answer, "status"), "authenticated")));
    return 0;
}
