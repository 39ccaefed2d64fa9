/* The program in the pod, as seen from here: what goes in, its log, its heartbeats, its time, what comes out. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "client/terminal.h"
#include "runner/attend/attend_priv.h"
#include "runner/talk/talk_files.h"

#define HEARTBEAT      "SIJIL_HEARTBEAT"
#define CHECKPOINTS    "SIJIL_CHECKPOINTS"                /* a folder that a pod does not have */
#define HEARTBEAT_FILE HEARTBEAT "=/tmp/.sijil-heartbeat" /* POD_HEARTBEAT (runner/pod/pod.h): /run/sijil has the agent's token */
#define LINE_SIZE      256
#define SAID_SIZE      201
#define END_MS         15000 /* after KILL; and until the cluster says why a pod is gone */
#define OUTPUT_STEP_MS 60000 /* between two messages: before its last message the agent reads all outputs */
#define SIGNAL_MAX     64

/* ---- what goes in ---- */

struct sending {
    struct talk *talk;
    const char *folder;
};

static struct result send_one(void *context, const struct output_file *file, struct error *err)
{
    const struct sending *sending = context;
    char path[OUTPUT_PATH_MAX + 8];

    (void)snprintf(path, sizeof path, "%s/%s", sending->folder, file->path);
    return talk_send_file(sending->talk, path, file->mode, file->fd, file->size, err);
}

static struct result send_folder(struct attending *attending, const char *name, struct error *err)
{
    struct sending sending = {.talk = attending->talk, .folder = name};
    struct output_walk walk = {.take = send_one, .context = &sending};

    return attend_walk_inputs(attending, name, &walk, err);
}

struct result attend_send_inputs(struct attending *attending, struct error *err)
{
    TRY(send_folder(attending, "code", err));
    TRY(send_folder(attending, "in", err));
    return talk_send(attending->talk, TALK_WHOLE, (struct bytes){0}, err);
}

static struct result add_text(struct buffer *words, struct error *err, const char *name, const char *value)
{
    return value == NULL ? buffer_add(words, name, strlen(name) + 1, err)
                         : buffer_format(words, err, "%s=%s%c", name, value, '\0');
}

static struct result let_go(struct attending *attending, struct error *err)
{
    struct buffer OWNED_BUFFER words = BUFFER(TALK_MESSAGE_MAX);
    const struct sandbox_options *options = attending->options;
    const char *name = NULL;
    json_t *value = NULL;
    size_t count = 0;

    while (options->arguments[count] != NULL) count++;
    TRY(buffer_format(&words, err, "%zu%c%lld%c%u%c%lld%c", count, '\0', (long long)options->limits->processes, '\0',
                      options->tasks == 0 ? 1 : options->tasks, '\0', (long long)options->limits->grace_s, '\0'));
    for (size_t i = 0; i < count; i++) TRY(add_text(&words, err, options->arguments[i], NULL));
    json_object_foreach ((json_t *)(uintptr_t)options->variables, name, value)
        if (strcmp(name, HEARTBEAT) != 0 && strcmp(name, CHECKPOINTS) != 0)
            TRY(add_text(&words, err, name, json_string_value(value)));
    TRY(add_text(&words, err, HEARTBEAT_FILE, NULL));
    TRY(talk_send(attending->talk, TALK_GO, buffer_bytes(&words), err));
    attending->began_ms = clock_monotonic_ms();
    return SUCCESS;
}

/* ---- while it runs ---- */

static void take_log(struct attending *attending)
{
    const struct sandbox_options *options = attending->options;
    struct sandbox_report *report = &attending->report;
    const struct bytes piece = buffer_bytes(&attending->message.content);
    const int64_t room = options->limits->log_bytes - report->log_bytes;
    const size_t kept = (int64_t)piece.length < room ? piece.length : (size_t)room;

    report->log_bytes += (int64_t)kept;
    report->log_dropped += (int64_t)(piece.length - kept);
    if (kept == 0) return;
    hasher_add(attending->log, (struct bytes){piece.data, kept});
    if (options->log != NULL) options->log(options->context, false, (struct bytes){piece.data, kept});
}

/* The payload wrote this line. */
static struct result take_beat(struct attending *attending, struct error *err)
{
    char line[LINE_SIZE];

    TRY(talk_texts(&attending->message, 1, err));
    (void)snprintf(line, sizeof line, "%s", attending->message.texts[0]);
    terminal_sanitize(line);
    if (attending->options->progress != NULL) attending->options->progress(attending->options->context, line);
    return SUCCESS;
}

/* "-1": the kernel does not tell. */
static int64_t number_at(const struct talk_message *message, size_t at)
{
    uint64_t number = 0;

    if (at >= message->count || !text_to_u64(bytes_of_text(message->texts[at]), INT64_MAX, &number)) return -1;
    return (int64_t)number;
}

static struct result take_use(struct attending *attending, struct error *err)
{
    TRY(talk_texts(&attending->message, 2, err));
    attending->use.cpu_us = number_at(&attending->message, 0);
    attending->use.memory_bytes = number_at(&attending->message, 1);
    return SUCCESS;
}

static struct result take_device_use(struct attending *attending, struct error *err)
{
    const struct sandbox_options *options = attending->options;

    TRY(talk_texts(&attending->message, 0, err));
    if (attending->about->device != NULL && options->pod_device_use != NULL)
        options->pod_device_use(options->context, attending->message.texts, attending->message.count);
    return SUCCESS;
}

/* As of bwrap(1): a status above 128 is that of a signal. */
static struct result take_end(struct attending *attending, struct error *err)
{
    struct sandbox_report *report = &attending->report;
    const struct talk_message *message = &attending->message;

    TRY(talk_texts(&attending->message, 5, err));
    const int64_t code = number_at(message, 0), cpu_us = number_at(message, 2), memory = number_at(message, 3);
    if (code < 0 || code > 255) return failure(err, ERROR_INVALID, "the agent tells no exit status");
    report->signal = code > 128 && code <= 128 + SIGNAL_MAX ? (int)code - 128 : 0;
    report->exit = report->signal == 0 ? (int)code : -1;
    report->cpu_ms = cpu_us < 0 ? 0 : cpu_us / 1000;
    report->memory_bytes = memory < 0 ? 0 : memory;
    if (number_at(message, 4) > 0 && report->end == SANDBOX_ENDED) report->end = SANDBOX_MEMORY;
    return SUCCESS;
}

/* *ended_out: it was the last word about the program. */
static struct result take_word(struct attending *attending, bool *ended_out, struct error *err)
{
    char said[SAID_SIZE];

    switch ((int)attending->message.kind) {
    case TALK_LOG: take_log(attending); return SUCCESS;
    case TALK_BEAT: return take_beat(attending, err);
    case TALK_USE: return take_use(attending, err);
    case TALK_DEVICES: return take_device_use(attending, err);
    case TALK_ENDED: *ended_out = true; return take_end(attending, err);
    case TALK_REFUSED:
        attend_said(attending, "", said, sizeof said);
        return failure(err, ERROR_UNAVAILABLE, "the agent: %s", said);
    default: return failure(err, ERROR_UNAVAILABLE, "the agent has gone");
    }
}

/* ---- the clock ---- */

struct watch {
    bool was_stopped, was_killed;
    int64_t kill_at_ms, give_up_ms;
};

static struct result send_word(struct attending *attending, enum talk_kind kind, struct error *err)
{
    return talk_send(attending->talk, kind, (struct bytes){0}, err);
}

/* This machine's clock says when it is due, also if the agent is silent, because the lease ends at its time. */
static void each_second(struct attending *attending)
{
    const int64_t now_ms = clock_monotonic_ms();

    if (attending->options->each_second == NULL || now_ms < attending->second_ms) return;
    attending->second_ms = now_ms + 1000;
    attending->options->each_second(attending->options->context, &attending->use);
}

static struct result keep_time(struct attending *attending, struct watch *watch, struct error *err)
{
    const struct run_limits *limits = attending->options->limits;
    const int64_t now_ms = clock_monotonic_ms();
    const bool is_late = now_ms >= attending->began_ms + limits->time_s * 1000;

    if (!watch->was_stopped && (is_late || attend_is_cancelled(attending))) {
        watch->was_stopped = true;
        attending->report.end = is_late ? SANDBOX_TIMEOUT : SANDBOX_CANCELLED;
        watch->kill_at_ms = now_ms + limits->grace_s * 1000;
        TRY(send_word(attending, TALK_STOP, err));
    }
    if (watch->was_stopped && !watch->was_killed && now_ms >= watch->kill_at_ms) {
        watch->was_killed = true;
        watch->give_up_ms = now_ms + END_MS;
        TRY(send_word(attending, TALK_KILL, err));
    }
    if (!watch->was_killed || now_ms < watch->give_up_ms) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "the agent does not end the program");
}

static struct result until_end(struct attending *attending, struct error *err)
{
    struct watch watch = {0};

    for (bool has_ended = false; !has_ended;) {
        each_second(attending);
        TRY(keep_time(attending, &watch, err));
        if (talk_receive(attending->talk, ATTEND_STEP_MS, &attending->message, err).ok)
            TRY(take_word(attending, &has_ended, err));
        else if (err->kind != ERROR_NOT_FOUND) return (struct result){.ok = false};
    }
    return SUCCESS;
}

/* ---- a pod that is gone ---- */

/* What the cluster says about a pod that has ended or ends. It is only the reason of an end that we have seen ourselves. */
static void ask_why(struct attending *attending)
{
    const int64_t until_ms = clock_monotonic_ms() + END_MS;
    const struct timespec pause = {.tv_nsec = 500000000};
    struct kubernetes_status status = {.state = KUBERNETES_RUNNING};
    struct error none;

    for (;;) {
        const bool is_told = kubernetes_find(attending->cluster, &attending->job, &status, &none).ok;
        if (is_told && status.state != KUBERNETES_RUNNING && status.state != KUBERNETES_WAITING) break;
        if (clock_monotonic_ms() >= until_ms) break;
        (void)nanosleep(&pause, NULL);
    }
    attending->status = status;
}

static void note_loss(struct attending *attending, const char *seen)
{
    struct sandbox_report *report = &attending->report;
    const bool was_told = report->end != SANDBOX_ENDED;

    ask_why(attending);
    report->exit = -1;
    report->signal = SIGKILL;
    report->cpu_ms = attending->use.cpu_us < 0 ? 0 : attending->use.cpu_us / 1000;
    report->memory_bytes = attending->use.memory_bytes < 0 ? 0 : attending->use.memory_bytes;
    if (!was_told) report->end = attending->status.state == KUBERNETES_MEMORY ? SANDBOX_MEMORY : SANDBOX_CANCELLED;
    (void)snprintf(report->lost, sizeof report->lost, "the pod has gone (%.80s): Kubernetes says %s, %.60s", seen,
                   kubernetes_state_name(attending->status.state),
                   attending->status.reason[0] == '\0' ? "without a reason" : attending->status.reason);
}

/* If the program got TERM, and this process did not send it, the cluster ends the pod. */
static void note_ending(struct attending *attending)
{
    struct sandbox_report *report = &attending->report;
    struct kubernetes_status status;
    struct error none;

    if (report->end != SANDBOX_ENDED || (report->exit == 0 && report->signal == 0)) return;
    if (!kubernetes_find(attending->cluster, &attending->job, &status, &none).ok) return;
    if (status.state != KUBERNETES_ENDING && status.state != KUBERNETES_LOST && status.state != KUBERNETES_TIMEOUT &&
        status.state != KUBERNETES_NONE)
        return;
    report->end = SANDBOX_CANCELLED;
    (void)snprintf(report->lost, sizeof report->lost, "the cluster ended the pod: %s, %.60s", kubernetes_state_name(status.state),
                   status.reason[0] == '\0' ? "without a reason" : status.reason);
}

/* When this returns SUCCESS, the program has begun and ended. */
struct result attend_watch(struct attending *attending, struct error *err)
{
    struct sandbox_report *report = &attending->report;
    struct error why = {0};

    TRY(let_go(attending, err));
    const bool is_whole = until_end(attending, &why).ok;
    report->wall_ms = clock_monotonic_ms() - attending->began_ms;
    report->log = hasher_digest(attending->log);
    if (is_whole) note_ending(attending);
    else note_loss(attending, why.message);
    return SUCCESS;
}

/* ---- what comes out ---- */

static struct result refuse(struct attending *attending)
{
    struct error *why = &attending->report.refusal;

    why->kind = ERROR_DENIED;
    attend_said(attending, "the outputs are refused", why->message, sizeof why->message);
    attending->report.outputs_refused = true;
    return SUCCESS;
}

static struct result take_files(struct attending *attending, struct error *err)
{
    const struct run_limits *limits = attending->options->limits;
    struct talk_taking taking = {.folder = attending->out, .files_max = limits->output_files, .bytes = limits->output_bytes};

    for (;;) {
        TRY(talk_receive(attending->talk, OUTPUT_STEP_MS, &attending->message, err));
        if (attending->message.kind == TALK_WHOLE) return SUCCESS;
        if (attending->message.kind == TALK_BROKEN) return refuse(attending);
        if (attending->message.kind != TALK_FILE)
            return failure(err, ERROR_UNAVAILABLE, "the agent has gone before all outputs came");
        TRY(talk_take_file(attending->talk, &attending->message, &taking, err));
    }
}

/* The agent walked them, and this machine does it again: an administrator of the cluster can control the agent. */
struct result attend_take_outputs(struct attending *attending, struct error *err)
{
    const struct run_limits *limits = attending->options->limits;
    char numbers[2][24];
    const char *const texts[] = {numbers[0], numbers[1]};

    (void)snprintf(numbers[0], sizeof numbers[0], "%lld", (long long)limits->output_files);
    (void)snprintf(numbers[1], sizeof numbers[1], "%lld", (long long)limits->output_bytes);
    TRY(talk_send_texts(attending->talk, TALK_WALK, texts, 2, err));
    TRY(take_files(attending, err));
    if (attending->report.outputs_refused) return SUCCESS;
    return sandbox_take_outputs(attending->options, attending->out, &attending->report, err);
}
