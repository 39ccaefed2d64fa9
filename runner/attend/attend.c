#include "runner/attend/attend.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "runner/attend/attend_priv.h"

#define EXTRA_S      3600 /* for the agent's work, before and after the program; Kubernetes ends the pod then */
#define TTL_S        60 /* a job whose worker was killed: its agent ends at once, and nobody else removes it before the next start */
#define START_MS     60000 /* the API may be away for a while */
#define END_MS       60000
#define PAUSE_NS     250000000
#define SLACK_BYTES  (INT64_C(1) << 20)
#define PAGE         4096
#define INPUT_FILES  1000000
#define USERS_FIRST  65536
#define USERS_DIGITS 3 /* bytes of a digest */

static void wait_a_little(void)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};

    (void)nanosleep(&pause, NULL);
}

/* ---- the inputs, on this machine ---- */

static struct result make_folder(const struct attending *attending, const char *name, mode_t mode, struct error *err)
{
    if (mkdirat(attending->work.folder, name, mode) == 0) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "no folder for a run: %s", strerror(errno));
}

static struct result fill(struct attending *attending, struct error *err)
{
    const struct cgroup_place nowhere = {.isolation = ISOLATION_RLIMITS};

    TRY(work_open(attending->options->work, getegid(), &nowhere, &attending->work, err));
    TRY(make_folder(attending, "in", 0700, err));
    TRY(make_folder(attending, "out", 0700, err));
    TRY(file_open_at(attending->work.folder, "out", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &attending->out, err));
    return attending->options->fill(attending->options->context, attending->work.folder, err);
}

struct result attend_walk_inputs(const struct attending *attending, const char *name, struct output_walk *walk, struct error *err)
{
    OWNED_FD folder = -1;

    walk->what = name;
    walk->rules = (struct output_rules){.files_max = INPUT_FILES, .bytes_max = INT64_MAX, .takes_links = true};
    TRY(file_open_at(attending->work.folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &folder, err));
    return output_walk(walk, folder, err);
}

static struct result count(void *context, const struct output_file *file, struct error *err)
{
    (void)err;
    *(int64_t *)context += (file->size + PAGE - 1) / PAGE * PAGE + PAGE;
    return SUCCESS;
}

/* In memory each file takes whole pages. */
static struct result measure(const struct attending *attending, int64_t *bytes_out, struct error *err)
{
    static const char *const names[] = {"code", "in"};
    int64_t bytes = SLACK_BYTES;

    for (size_t i = 0; i < 2; i++) {
        struct output_walk walk = {.take = count, .context = &bytes};
        TRY(attend_walk_inputs(attending, names[i], &walk, err));
    }
    *bytes_out = bytes;
    return SUCCESS;
}

/* ---- the job ---- */

/* A user of its own for each attempt, because the kernel counts the processes of a user on the whole node. */
static int64_t user_for(const struct attend_run *about)
{
    uint8_t sum[SHA256_SIZE];
    char text[UUID_TEXT_SIZE + 16];
    int64_t user = 0;

    (void)snprintf(text, sizeof text, "%s %d %d", about->run, about->attempt, about->node);
    sha256_of(bytes_of_text(text), sum);
    for (size_t i = 0; i < USERS_DIGITS; i++) user = user << 8 | sum[i];
    return USERS_FIRST + user;
}

static void fill_job(struct attending *attending, int64_t input_bytes)
{
    const struct attend_run *about = attending->about;
    const struct attend_place *place = about->place;
    const struct run_limits *limits = attending->options->limits;
    struct kubernetes_job *job = &attending->job;

    (void)snprintf(attending->port, sizeof attending->port, "%u", talk_door_port(attending->door));
    uuid_format(&about->own->runner, attending->runner);
    *job = (struct kubernetes_job){
        .run = about->run,
        .attempt = about->attempt,
        .node = about->node,
        .agent_image = place->agent_image,
        .payload_image = about->image == NULL ? place->payload_image : about->image,
        .queue = place->queue,
        .region = about->own->region,
        .cpus = limits->cpus,
        .memory_bytes = limits->memory_bytes,
        .input_bytes = input_bytes,
        .output_bytes = limits->output_bytes,
        .deadline_s = limits->time_s + limits->grace_s + EXTRA_S,
        .grace_s = limits->grace_s,
        .runner = attending->runner,
        .ttl_s = TTL_S,
        .payload_user = user_for(about),
        .has_tasks = attending->options->joins_tasks,
        .device = about->device,
        .devices = about->devices,
        .word_count = 6,
        .words = {"/sijil-pod", "agent", "/gate", place->address, attending->port, talk_door_pin(attending->door)}};
    for (size_t i = 0; i < json_array_size(about->own->jurisdictions) && i < KUBERNETES_JURISDICTIONS_MAX; i++)
        job->jurisdictions[job->jurisdiction_count++] = json_string_value(json_array_get(about->own->jurisdictions, i));
}

/* A refusal by the API may be temporary: an expired token, or somebody else's job with this name. So another attempt may get the run. */
static struct result soften(struct result done, struct error *err)
{
    if (!done.ok && err->kind != ERROR_NO_MEMORY && err->kind != ERROR_INVALID) err->kind = ERROR_UNAVAILABLE;
    return done;
}

/* A lost answer makes no second job, because the name is the attempt's. */
static struct result start_job(struct attending *attending, struct error *err)
{
    const int64_t until_ms = clock_monotonic_ms() + START_MS;

    attending->has_job = true;
    for (;;) {
        const struct result started = kubernetes_start(attending->cluster, &attending->job, &attending->status, err);
        const bool may_change = !started.ok && (err->kind == ERROR_UNAVAILABLE || err->kind == ERROR_UNCERTAIN);
        if (!may_change || attend_is_cancelled(attending) || clock_monotonic_ms() >= until_ms) return soften(started, err);
        wait_a_little();
    }
}

static struct result prepare(struct attending *attending, struct error *err)
{
    const struct attend_place *place = attending->about->place;
    int64_t input_bytes = 0;

    TRY(fill(attending, err));
    TRY(measure(attending, &input_bytes, err));
    TRY(hasher_new(DIGEST_SHA256, &attending->log, err));
    TRY(soften(talk_door_open(place->listen, place->port, place->ports, &attending->door, err), err));
    TRY(soften(kubernetes_open(&place->cluster, &attending->cluster, err), err));
    fill_job(attending, input_bytes);
    TRY(start_job(attending, err));
    attending->until_ms = clock_monotonic_ms() + place->patience_ms;
    return SUCCESS;
}

/* ---- the whole run ---- */

static struct result run(struct attending *attending, struct error *err)
{
    const struct sandbox_options *options = attending->options;

    TRY(prepare(attending, err));
    TRY(attend_meet(attending, err));
    TRY(attend_send_inputs(attending, err));
    if (options->ready != NULL) TRY(options->ready(options->context, err));
    TRY(attend_watch(attending, err));
    if (options->ended != NULL) options->ended(options->context, &attending->report);
    if (attending->report.lost[0] != '\0') return SUCCESS; /* nothing comes any more */
    TRY(attend_take_outputs(attending, err));
    (void)talk_send(attending->talk, TALK_BYE, (struct bytes){0}, err).ok;
    return SUCCESS;
}

/* The job is there as long as its pod. If the API is away, the job ends by itself when the connection ends, and the cluster removes it. */
static struct result remove_job(struct attending *attending, struct error *err)
{
    const int64_t until_ms = clock_monotonic_ms() + END_MS;

    for (;;) {
        struct result done = kubernetes_cancel(attending->cluster, &attending->job, err);
        if (done.ok) done = kubernetes_find(attending->cluster, &attending->job, &attending->status, err);
        if (done.ok && attending->status.state == KUBERNETES_NONE) return SUCCESS;
        if (done.ok) (void)failure(err, ERROR_UNAVAILABLE, "its pod is still there after its removal");
        if (clock_monotonic_ms() >= until_ms) return (struct result){.ok = false};
        wait_a_little();
    }
}

static struct result clean_up(struct attending *attending, struct error *err)
{
    talk_free(attending->talk); /* the agent sees the end of the connection, and ends the program */
    if (attending->has_job && !remove_job(attending, err).ok) log_error("a job is left to the cluster", err);
    talk_door_free(attending->door);
    kubernetes_free(attending->cluster);
    hasher_free(attending->log);
    buffer_done(&attending->message.content);
    file_close_owned(&attending->out);
    return work_remove(&attending->work, err);
}

struct result attend_check(const struct attend_place *place, struct error *err)
{
    OWNED(talk_door) *door = NULL;

    if (!talk_is_address(place->address))
        return failure(err, ERROR_INVALID, "pods reach this machine at an IP address, not at %.100s", place->address);
    return talk_door_open(place->listen, place->port, place->ports, &door, err);
}

struct result attend_may_begin(const struct attend_place *place, const atomic_bool *gives_up, struct error *err)
{
    struct kubernetes_options options = place->cluster;
    OWNED(kubernetes) *cluster = NULL;

    options.gives_up = gives_up;
    TRY(kubernetes_open(&options, &cluster, err));
    return kubernetes_check_place(cluster, err);
}

struct result attend_run(const struct attend_run *about, const struct sandbox_options *options, struct sandbox_report *report_out,
                         struct error *err)
{
    struct attending *attending = memory_zeroed(1, sizeof *attending);
    struct error left = {0};

    if (attending == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a run");
    attending->about = about;
    attending->options = options;
    attending->work = WORK_NONE;
    attending->out = -1;
    attending->message = TALK_MESSAGE;
    attending->use = (struct cgroup_use){.cpu_us = -1, .memory_bytes = -1};
    const struct result done = run(attending, err);
    const struct result cleaned = clean_up(attending, &left);
    if (done.ok && cleaned.ok) *report_out = attending->report;
    free(attending);
    TRY(done);
    return cleaned.ok ? SUCCESS : failure(err, left.kind, "the run has ended, but its folder is left: %.200s", left.message);
}
