/* From the job's beginning to a pod that is shown to be closed. The cluster's reports only decide how long to wait. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "client/terminal.h"
#include "runner/attend/attend_priv.h"

#define LOOK_MS       1000
#define REVIEW_MS     60000 /* the API may be away for a while; the agent waits for twice as long */
#define REVIEW_STEP_S 1
#define WORDS_MAX     (2 * PROOF_ADDRESSES_MAX)
#define WHY_SIZE      200

bool attend_is_cancelled(const struct attending *attending)
{
    return attending->options->cancelled != NULL && *attending->options->cancelled != 0;
}

void attend_said(const struct attending *attending, const char *otherwise, char *text_out, size_t size)
{
    const struct bytes said = buffer_bytes(&attending->message.content);
    const size_t length = said.length < size ? said.length : size - 1;

    if (length == 0) (void)snprintf(text_out, size, "%s", otherwise);
    else (void)snprintf(text_out, size, "%.*s", (int)length, (const char *)said.data);
    terminal_sanitize(text_out);
}

/* ---- what the cluster says ---- */

static const char *reason_of(const struct kubernetes_status *status)
{
    return status->reason[0] == '\0' ? "it gives no reason" : status->reason;
}

static bool lacks_image(const struct kubernetes_status *status)
{
    return strncmp(status->reason, "ErrImage", 8) == 0 || strncmp(status->reason, "ImagePull", 9) == 0 ||
           strcmp(status->reason, "InvalidImageName") == 0;
}

/* Refuses a pod that has ended before its agent spoke. If the pod is lost, another attempt may succeed; if it ended by itself, the run is refused. */
static struct result check_open(const struct kubernetes_status *status, struct error *err)
{
    switch (status->state) {
    case KUBERNETES_WAITING:
    case KUBERNETES_RUNNING: return SUCCESS;
    case KUBERNETES_NONE:
    case KUBERNETES_LOST:
    case KUBERNETES_ENDING:
        return failure(err, ERROR_UNAVAILABLE, "the pod has gone before it began: %s (%.80s)",
                       kubernetes_state_name(status->state), reason_of(status));
    case KUBERNETES_COMPLETED:
    case KUBERNETES_FAILED:
    case KUBERNETES_TIMEOUT:
    case KUBERNETES_MEMORY: break;
    }
    return failure(err, ERROR_DENIED, "the cluster says that the pod is %s (%.60s), and its agent did not say so: %.100s",
                   kubernetes_state_name(status->state), reason_of(status),
                   status->message[0] == '\0' ? "it says nothing" : status->message);
}

/* While the API is away, nothing ends. */
static struct result look(struct attending *attending, struct error *err)
{
    struct kubernetes_status status;
    struct error why = {0};

    if (clock_monotonic_ms() < attending->look_at_ms) return SUCCESS;
    attending->look_at_ms = clock_monotonic_ms() + LOOK_MS;
    if (!kubernetes_find(attending->cluster, &attending->job, &status, &why).ok) return SUCCESS;
    attending->status = status;
    return check_open(&status, err);
}

static struct result go_on(struct attending *attending, const char *why, struct error *err)
{
    const struct kubernetes_status *status = &attending->status;

    if (attend_is_cancelled(attending)) return failure(err, ERROR_UNAVAILABLE, "the run was cancelled before it began");
    TRY(look(attending, err));
    if (clock_monotonic_ms() < attending->until_ms) return SUCCESS;
    if (status->state == KUBERNETES_WAITING && lacks_image(status))
        return failure(err, ERROR_NOT_FOUND, "the cluster does not have the image of the pod: %.100s", reason_of(status));
    if (status->state == KUBERNETES_WAITING)
        return failure(err, ERROR_UNAVAILABLE, "the cluster started no pod: %.100s", reason_of(status));
    return failure(err, ERROR_DENIED, "no agent proved itself: %.180s", why);
}

/* ---- who the agent is ---- */

static struct result review(struct attending *attending, struct error *err)
{
    const struct kubernetes_holder holder = {
        .account = KUBERNETES_ACCOUNT, .pod_uid = attending->status.pod_uid, .node_uids = attending->about->own->nodes};
    const struct bytes token = buffer_bytes(&attending->message.content);
    const int64_t until_ms = clock_monotonic_ms() + REVIEW_MS;

    for (;;) {
        const struct result reviewed = kubernetes_review(attending->cluster, token, &holder, err);
        if (reviewed.ok || err->kind != ERROR_UNAVAILABLE || clock_monotonic_ms() >= until_ms) return reviewed;
        const struct timespec pause = {.tv_sec = REVIEW_STEP_S};
        (void)nanosleep(&pause, NULL);
    }
}

/* Anybody may connect: only the pod of this job is let in. */
static struct result prove(struct attending *attending, struct error *err)
{
    if (attending->message.kind != TALK_TOKEN) return failure(err, ERROR_DENIED, "the caller showed no token");
    TRY(kubernetes_find(attending->cluster, &attending->job, &attending->status, err));
    if (attending->status.pod_uid[0] == '\0') return failure(err, ERROR_DENIED, "a token came, and the job has no pod");
    return review(attending, err);
}

static void drop(struct attending *attending)
{
    struct buffer *content = &attending->message.content;

    if (content->data != NULL) explicit_bzero(content->data, content->length);
    buffer_clear(content);
}

/* The agent alone has ended: a payload that begins later waits ten minutes for it, and so long nothing else tells that this pod is of no use. */
static struct result check_agent(const struct attending *attending, const char *why, struct error *err)
{
    const struct kubernetes_status *status = &attending->status;

    if (!status->agent_has_failed) return SUCCESS;
    return failure(err, ERROR_DENIED, "the pod's agent has failed before it proved itself: %.150s",
                   status->message[0] == '\0' ? why : status->message);
}

static struct result await_agent(struct attending *attending, struct error *err)
{
    char why[WHY_SIZE] = "nobody came";
    struct error none = {0};

    for (;;) {
        TRY(go_on(attending, why, err));
        TRY(check_agent(attending, why, err));
        if (!talk_hear(attending->door, ATTEND_STEP_MS, &attending->message, &attending->talk, &none).ok) continue;
        const bool is_proven = prove(attending, &none).ok;
        drop(attending);
        if (is_proven) {
            talk_door_free(attending->door); /* nobody else is heard */
            attending->door = NULL;
            return SUCCESS;
        }
        (void)snprintf(why, sizeof why, "%.190s", none.message);
        log_error("an agent is not let in", &none);
        talk_free(attending->talk);
        attending->talk = NULL;
    }
}

/* ---- that the pod is closed ---- */

static struct result ask(struct attending *attending, struct error *err)
{
    const struct sandbox_options *options = attending->options;
    const char *words[WORDS_MAX];
    size_t count = 0;

    for (size_t i = 0; i < options->address_count && count + 2 <= WORDS_MAX; i++) {
        words[count++] = options->addresses[i].address;
        words[count++] = options->addresses[i].port;
    }
    return talk_send_texts(attending->talk, TALK_CHECK, words, count, err);
}

static struct result refused(struct attending *attending, struct error *err)
{
    char text[WHY_SIZE];

    attend_said(attending, "", text, sizeof text);
    return failure(err, ERROR_DENIED, "the pod is not closed: %s", text);
}

static struct result await_closed(struct attending *attending, struct error *err)
{
    for (;;) {
        TRY(go_on(attending, "the payload's container does not begin", err));
        if (!talk_receive(attending->talk, ATTEND_STEP_MS, &attending->message, err).ok) {
            if (err->kind == ERROR_NOT_FOUND) continue;
            return (struct result){.ok = false};
        }
        if (attending->message.kind == TALK_CLOSED) return talk_texts(&attending->message, 4, err);
        if (attending->message.kind == TALK_REFUSED) return refused(attending, err);
        return failure(err, ERROR_UNAVAILABLE, "the agent has gone before the program began");
    }
}

static int64_t number_of(const char *text)
{
    uint64_t number = 0;

    return text_to_u64(bytes_of_text(text), INT64_MAX, &number) ? (int64_t)number : 0;
}

struct result attend_judge(const char *const seen[3], const struct run_limits *limits, enum isolation *isolation_out,
                           struct error *err)
{
    const int64_t version = number_of(seen[0]), memory_bytes = number_of(seen[1]), cpus = number_of(seen[2]);

    if (version != 1 && version != 2) return failure(err, ERROR_DENIED, "the pod sees no control group of its own");
    if (memory_bytes == 0 || memory_bytes > limits->memory_bytes)
        return failure(err, ERROR_DENIED, "the pod's control group does not limit its memory to memory_bytes");
    if (cpus == 0 || cpus > 1000 * limits->cpus)
        return failure(err, ERROR_DENIED, "the pod's control group does not limit its processors to cpus");
    *isolation_out = version == 2 ? ISOLATION_CGROUP_V2 : ISOLATION_CGROUP_V1;
    return SUCCESS;
}

/* Before the program begins: what the pod's own driver tells. */
static struct result judge_devices(struct attending *attending, struct error *err)
{
    const struct sandbox_options *options = attending->options;
    const struct talk_message *message = &attending->message;

    if (attending->about->device == NULL || options->pod_devices == NULL) return SUCCESS;
    return options->pod_devices(options->context, message->texts + 4, message->count - 4, err);
}

static struct result judge(struct attending *attending, struct error *err)
{
    enum isolation floor = ISOLATION_RLIMITS, *seen = &attending->report.isolation;
    uint64_t count = 0;

    TRY(attend_judge(attending->message.texts, attending->options->limits, seen, err));
    (void)isolation_find(attending->about->own->isolation, &floor);
    if (floor < attending->options->isolation) floor = attending->options->isolation;
    if (text_to_u64(bytes_of_text(attending->message.texts[3]), PROOF_ADDRESSES_MAX, &count))
        attending->report.address_count = (size_t)count;
    if (*seen >= floor) return judge_devices(attending, err);
    return failure(err, ERROR_DENIED, "the isolation %s is demanded, and the pod gives %s", isolation_name(floor),
                   isolation_name(*seen));
}

struct result attend_meet(struct attending *attending, struct error *err)
{
    TRY(await_agent(attending, err));
    TRY(ask(attending, err));
    TRY(await_closed(attending, err));
    TRY(judge(attending, err));
    log_line(LOG_INFO, "a pod has proven itself", "run", attending->about->run, "pod", attending->status.pod_uid, "node",
             attending->status.node, "isolation", isolation_name(attending->report.isolation), NULL);
    return SUCCESS;
}
