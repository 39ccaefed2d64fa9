#include "runner/pods.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/uuid.h"

#define TRIAL_MS   180000 /* images may have to be fetched */
#define END_MS     60000
#define PAUSE_NS   250000000
#define TRIAL_SIZE (INT64_C(64) << 20)

struct findings {
    char version[KUBERNETES_NAME_SIZE];
    struct kubernetes_status trial; /* KUBERNETES_NONE: none was started */
};

static void wait_a_little(void)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};

    (void)nanosleep(&pause, NULL);
}

static bool has_ended(enum kubernetes_state state)
{
    return state != KUBERNETES_WAITING && state != KUBERNETES_RUNNING;
}

static struct result await(struct kubernetes *cluster, const struct kubernetes_job *job, const struct pods_options *options,
                           struct kubernetes_status *status, struct error *err)
{
    const int64_t until_ms = clock_monotonic_ms() + TRIAL_MS;

    while (!has_ended(status->state)) {
        if (*options->cancelled != 0 || clock_monotonic_ms() >= until_ms)
            return failure(err, ERROR_UNAVAILABLE, "the trial's pod did not end: it is %s (%.100s)",
                           kubernetes_state_name(status->state),
                           status->reason[0] == '\0' ? "no reason is given" : status->reason);
        wait_a_little();
        TRY(kubernetes_find(cluster, job, status, err));
    }
    return SUCCESS;
}

static struct result judge(const struct kubernetes_status *status, struct error *err)
{
    if (status->state == KUBERNETES_COMPLETED && strncmp(status->message, "closed: ", 8) == 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "the trial's pod: %s (%.60s): %.150s", kubernetes_state_name(status->state), status->reason,
                   status->message[0] == '\0' ? "it says nothing" : status->message);
}

/* Removes the trial's job and pod, whatever the result of the trial. */
static struct result remove_trial(struct kubernetes *cluster, const struct kubernetes_job *job, struct error *err)
{
    const int64_t until_ms = clock_monotonic_ms() + END_MS;
    struct kubernetes_status status;

    TRY(kubernetes_cancel(cluster, job, err));
    for (;;) {
        TRY(kubernetes_find(cluster, job, &status, err));
        if (status.state == KUBERNETES_NONE) return SUCCESS;
        if (clock_monotonic_ms() >= until_ms)
            return failure(err, ERROR_UNAVAILABLE, "the trial's pod is still there after its removal");
        wait_a_little();
    }
}

/* Agent and payload have the same image. Its program copies itself, and runs itself as the payload's command. */
static struct result try_pod(struct kubernetes *cluster, const struct pods_options *options, struct kubernetes_status *status,
                             struct error *err)
{
    const struct uuid uuid = uuid_random();
    char run[UUID_TEXT_SIZE];
    struct error later = {0};
    const struct kubernetes_job job = {.run = run,
                                       .attempt = 1,
                                       .agent_image = options->image,
                                       .payload_image = options->image,
                                       .region = options->region,
                                       .cpus = 1,
                                       .memory_bytes = TRIAL_SIZE,
                                       .input_bytes = TRIAL_SIZE,
                                       .output_bytes = TRIAL_SIZE,
                                       .deadline_s = TRIAL_MS / 1000,
                                       .word_count = 7,
                                       .words = {"/sijil-pod", "trial", "/gate", "--", "/sijil-pod", "place", "/tmp"}};

    uuid_format(&uuid, run);
    struct result done = kubernetes_start(cluster, &job, status, err);
    if (done.ok) done = await(cluster, &job, options, status, err);
    if (done.ok) done = judge(status, err);
    const struct result removed = remove_trial(cluster, &job, &later);
    if (!done.ok || removed.ok) return done;
    *err = later;
    return removed;
}

static struct result look(const struct pods_options *options, struct findings *findings, struct error *err)
{
    OWNED(kubernetes) *cluster = NULL;

    TRY(kubernetes_open(&options->cluster, &cluster, err));
    (void)memcpy(findings->version, kubernetes_version(cluster), strlen(kubernetes_version(cluster)) + 1);
    TRY(kubernetes_check_place(cluster, err));
    return options->image == NULL ? SUCCESS : try_pod(cluster, options, &findings->trial, err);
}

struct result pods_text(const struct pods_options *options, struct buffer *text, struct error *err)
{
    struct findings findings = {.trial = {.state = KUBERNETES_NONE}};

    TRY(look(options, &findings, err));
    TRY(buffer_format(text, err, "kubernetes %s, namespace %s: restricted, all connections forbidden\n", findings.version,
                      options->cluster.space));
    if (options->image == NULL)
        return buffer_add_text(text, "pod        none was started: --kubernetes-image names an image for one\n", err);
    return buffer_format(text, err, "pod        %s, on node %s\n", findings.trial.message, findings.trial.node);
}

struct result pods_json(const struct pods_options *options, struct buffer *text, struct error *err)
{
    struct findings findings = {.trial = {.state = KUBERNETES_NONE}};

    TRY(look(options, &findings, err));
    OWNED_JSON all = json_pack("{s:s s:s}", "kubernetes", findings.version, "namespace", options->cluster.space);
    if (all != NULL && options->image != NULL)
        (void)json_object_set_new(all, "pod",
                                  json_pack("{s:s s:s}", "node", findings.trial.node, "shown", findings.trial.message));
    if (all == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a cluster");
    TRY(json_write_canonical(text, all, err));
    return buffer_add_text(text, "\n", err);
}
