/* A leased run, from its fetched inputs to the end of its program. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "runner/payload/payload.h"
#include "runner/sandbox/work.h"
#include "runner/serve/artifacts.h"
#include "runner/serve/leased_priv.h"
#include "training/format/chain.h"

#define IMAGE_NAME_SIZE 512  /* host, repository, digest */
#define END_MARGIN_MS   5000 /* for the result, before the lease ends */

/* ---- what the sandbox calls ---- */

static struct result fill(void *context, int folder, struct error *err)
{
    struct leased *leased = context;
    const struct artifacts artifacts = {.session = leased->session,
                                        .host = leased->worker->options->state->registry.host,
                                        .spec = leased->verdict->spec,
                                        .floors = leased->floors};

    for (unsigned attempt = 0; !artifacts_fetch(&artifacts, folder, err).ok; attempt++)
        if (!worker_tries_again(err, attempt, leased->ends_ms)) return (struct result){.ok = false};
    leased->has_fetched = json_object_get(leased->verdict->spec->json, "image") == NULL || leased->worker->options->pods != NULL;
    return SUCCESS;
}

static struct result ready(void *context, struct error *err)
{
    struct leased *leased = context;

    TRY(leased_meet(leased, err));
    worker_set_idle(false); /* from here on a request to stop ends the program, and its result is sent */
    leased->has_begun = true;
    leased->started_ms = clock_wall_ms();
    leased->began_ms = clock_monotonic_ms();
    TRY(leased_join(leased, err));
    teller_set_phase(leased->teller, "running");
    log_line(LOG_INFO, "run started", "run", leased->run.run, NULL);
    return SUCCESS;
}

static void take_log(void *context, bool is_error, struct bytes piece)
{
    (void)is_error;
    leased_add_log(context, piece);
}

static void take_progress(void *context, const char *line)
{
    struct leased *leased = context;
    const int percent = outcome_progress(line);

    if (percent >= 0) teller_set_progress(leased->teller, percent);
}

static int64_t known(int64_t value)
{
    return value < 0 ? 0 : value;
}

static void each_second(void *context, const struct cgroup_use *use)
{
    struct leased *leased = context;
    const struct device_grant *grant = &leased->verdict->grant;
    const int64_t held_ms = clock_monotonic_ms() - leased->began_ms;

    leased_tell_checkpoints(leased);
    leased_watch_nodes(leased);
    if (grant->count > 0) devices_sample(leased->worker->devices, grant);
    teller_set_use(leased->teller, known(use->cpu_us) / 1000, (int64_t)grant->count * held_ms, known(use->memory_bytes));
    if (clock_wall_ms() + leased->verdict->spec->limits.grace_s * 1000 + END_MARGIN_MS < leased->ends_ms) return;
    leased->stops = "the lease ends";
    worker_cancelled = 1;
}

/* What the pod's own driver tells takes the place of what was declared, also in the result. */
static struct result take_devices(void *context, const char *const *texts, size_t count, struct error *err)
{
    struct leased *leased = context;

    return declared_take_seen(leased->worker->devices, &leased->verdict->grant, &leased->verdict->spec->devices, texts, count,
                              err);
}

static void take_device_use(void *context, const char *const *texts, size_t count)
{
    struct leased *leased = context;

    declared_take_use(leased->worker->devices, &leased->verdict->grant, texts, count);
}

static void take_end(void *context, const struct sandbox_report *report)
{
    struct leased *leased = context;

    leased_part(leased);
    leased->has_ended = true;
    leased->ended = *report;
    if (leased->ended.lost[0] != '\0') leased->stops = leased->ended.lost;
    leased->finished_ms = clock_wall_ms();
    teller_set_phase(leased->teller, "finishing");
    teller_set_use(leased->teller, report->cpu_ms, (int64_t)leased->verdict->grant.count * report->wall_ms, report->memory_bytes);
    leased_end_checkpoints(leased);
}

/* Outputs of a program that failed are not kept; its metrics are. Those of the first node alone count. */
static struct result take_output(void *context, const struct output_file *file, struct error *err)
{
    struct leased *leased = context;
    const bool metrics_only = leased->ended.end != SANDBOX_ENDED || leased->ended.exit != 0 || leased->fault[0] != '\0';

    if (leased->run.node != 0) return SUCCESS;
    for (unsigned attempt = 0; !harvest_take(leased->harvest, file, metrics_only, err).ok; attempt++)
        if (leased_is_left(leased) || !worker_tries_again(err, attempt, leased->ends_ms)) return (struct result){.ok = false};
    return SUCCESS;
}

/* ---- what is open for a run ---- */

static struct result ask_token(void *context, const char *scope, struct buffer *token, int64_t *lifetime_s_out, struct error *err)
{
    struct leased *leased = context;

    (void)scope;
    return calls_token(leased->worker->calls, &leased->run, token, lifetime_s_out, err);
}

/* The file has no name, so that nothing of it is left after a kill. Some file systems can't make such a file at once. */
static struct result open_log(const char *work, int *fd_out, struct error *err)
{
    char path[WORK_PATH_SIZE];
    OWNED_FD fd = open(work, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    (void)snprintf(path, sizeof path, "%.360s/log-XXXXXX", work);
    if (fd < 0 && (fd = mkostemp(path, O_CLOEXEC)) >= 0) (void)unlink(path);
    if (fd < 0) return failure(err, ERROR_UNAVAILABLE, "no file for the log in %.160s: %s", work, strerror(errno));
    *fd_out = fd;
    fd = -1;
    return SUCCESS;
}

/* The key of this attempt. Nothing was fetched yet. */
static struct result make_key(struct leased *leased, struct error *err)
{
    struct channel_question question = {.topic = CHANNEL_CERTIFY, .lease = leased->verdict->taken};
    struct channel_answer answer;

    TRY(ecdsa_key_new(&leased->key, err));
    ecdsa_key_public(leased->key, question.key);
    memcpy(question.order, leased->verdict->bundle->chain.order->digest, sizeof question.order);
    TRY(channel_ask(leased->worker->channel, &question, &answer, err));
    memcpy(leased->certified, answer.envelope, sizeof leased->certified);
    TRY(run_envelope_read(bytes_of_text(leased->certified), RUN_CERTIFICATE, &leased->certificate, err));
    leased->run.certificate = leased->certified;
    return SUCCESS;
}

static struct result open_all(struct leased *leased, struct error *err)
{
    struct worker *worker = leased->worker;
    const char *host = worker->options->state->registry.host;

    TRY(make_key(leased, err));
    TRY(open_log(worker->options->work, &leased->log, err));
    TRY(calls_open(&worker->http, worker->session, &leased->tells, err));
    calls_give_up_when(leased->tells, &leased->closes);
    const struct teller_options told = {.calls = leased->tells,
                                        .leased = &leased->run,
                                        .log = leased->log,
                                        .cancelled = &worker_cancelled,
                                        .gives_up = &worker_gives_up};
    TRY(teller_start(&told, &leased->teller, err));
    leased->tokens = (struct token_source){.ask = ask_token, .context = leased, .name = leased->run.run};
    leased->report.waits_for_room = true;
    TRY(session_open_from(&leased->report, &worker->http, &leased->tokens, &leased->session, err));
    session_give_up_when(leased->session, &worker_gives_up);
    const struct harvest_options products = {.session = leased->session,
                                             .host = host,
                                             .outputs = json_object_get(leased->verdict->spec->json, "outputs"),
                                             .folder = "/out",
                                             .label = &leased->label};
    return harvest_new(&products, &leased->harvest, err);
}

static void close_all(struct leased *leased)
{
    atomic_store(&leased->closes, true);
    checkpoints_free(leased->checkpoints);
    harvest_free(leased->harvest);
    floors_free(leased->floors);
    buffer_done(&leased->label);
    session_free(leased->session);
    teller_free(leased->teller);
    calls_free(leased->tells);
    file_close_owned(&leased->log);
}

static void forget_key(struct leased *leased)
{
    ecdsa_key_free(leased->key);
    run_envelope_free(leased->certificate);
}

/* ---- the run ---- */

/* NULL: on this machine. */
static const struct attend_run *pod_of(const struct leased *leased, struct attend_run *pod, char image[IMAGE_NAME_SIZE])
{
    const struct serve_options *options = leased->worker->options;
    const json_t *named = json_object_get(leased->verdict->spec->json, "image");
    const struct device_grant *grant = &leased->verdict->grant;

    if (options->pods == NULL) return NULL;
    if (named != NULL)
        (void)snprintf(image, IMAGE_NAME_SIZE, "%s/%s@%s", options->state->registry.host, json_text_of(named, "repository"),
                       json_text_of(named, "digest"));
    *pod = (struct attend_run){.place = options->pods,
                               .own = &options->state->own,
                               .run = leased->run.run,
                               .attempt = leased->run.attempt,
                               .node = leased->run.node,
                               .image = named == NULL ? NULL : image,
                               .device = grant->count == 0 ? NULL : declared_resource(leased->worker->devices, grant->which[0]),
                               .devices = (int64_t)grant->count};
    return pod;
}

static struct result run_payload(struct leased *leased, struct error *err)
{
    const struct serve_options *options = leased->worker->options;
    const struct run_spec *spec = leased->verdict->spec;
    struct attend_run pod;
    char image[IMAGE_NAME_SIZE];
    struct payload_options payload = {.spec = spec,
                                      .pod = pod_of(leased, &pod, image),
                                      .grant = &leased->verdict->grant,
                                      .is_leased = true,
                                      .node = leased->run.node,
                                      .sandbox = {.isolation = spec->isolation,
                                                  .cgroup = options->cgroup,
                                                  .work = options->work,
                                                  .user = options->user,
                                                  .inside = options->inside,
                                                  .code = "code",
                                                  .input_count = spec->input_count,
                                                  .address_count = leased->worker->address_count,
                                                  .addresses = leased->worker->addresses,
                                                  .fill = fill,
                                                  .checkpoints = leased_take_checkpoints,
                                                  .device = leased_take_device,
                                                  .ready = ready,
                                                  .ended = take_end,
                                                  .log = take_log,
                                                  .progress = take_progress,
                                                  .output = take_output,
                                                  .each_second = each_second,
                                                  .pod_devices = take_devices,
                                                  .pod_device_use = take_device_use,
                                                  .context = leased,
                                                  .cancelled = &worker_cancelled}};
    OWNED_JSON variables = NULL;
    struct sandbox_report report;

    if (payload.pod == NULL && json_object_get(spec->json, "image") != NULL) payload.sandbox.image = leased_image;
    for (size_t i = 0; i < spec->input_count; i++) payload.sandbox.inputs[i].name = spec->inputs[i];
    if (json_object_get(spec->json, "resume") != NULL)
        payload.sandbox.inputs[payload.sandbox.input_count++].name = PAYLOAD_RESUME;
    TRY(payload_run(&payload, &report, &variables, err));
    leased->ended = report;
    if (report.outputs_refused) leased_fail(leased, report.refusal.message);
    return SUCCESS;
}

/* The check that a refusal names for a run that did not begin. */
static const char *check_of(const struct leased *leased, const struct error *why)
{
    if (worker_cancelled != 0 || leased->harvest == NULL) return RUN_CHECK_MACHINE;
    if (why->kind == ERROR_FULL || why->kind == ERROR_UNAVAILABLE || why->kind == ERROR_NO_MEMORY) return RUN_CHECK_MACHINE;
    if (leased->is_forbidden) return "policy";
    if (why->kind == ERROR_LIMIT && !leased->has_fetched) return "limits"; /* of the image */
    return leased->has_fetched ? "isolation" : "digest";
}

static bool is_left(struct leased *leased)
{
    return leased->is_ready || (leased->teller != NULL && leased_is_left(leased));
}

/* True: the lease has ended. If the registry does not take the start, the attempt has ended there already, so there is nothing to refuse. */
static bool give_up(struct leased *leased, const struct error *why)
{
    struct order_refusal refusal = {.check = check_of(leased, why)};

    leased->worker->was_full = why->kind == ERROR_FULL;
    if (is_left(leased)) {
        log_error("a run did not begin", why);
        return true;
    }
    (void)snprintf(refusal.reason, sizeof refusal.reason, "%s",
                   worker_cancelled != 0 ? "the runner stops, and the run had not begun" : why->message);
    if (worker_cancelled != 0)
        calls_give_up_when(leased->worker->calls, NULL); /* a last word, so that others get the run at once */
    (void)leased_refuse(leased->worker, leased->verdict->bundle->chain.lease, &refusal);
    return true;
}

static bool execute(struct leased *leased)
{
    struct error err = {0};

    struct result done = open_all(leased, &err);
    if (done.ok) done = leased_check_labels(leased, &err);
    if (done.ok) done = run_payload(leased, &err);
    if (!done.ok && !leased->has_begun) return give_up(leased, &err);
    if (!done.ok) leased_fail(leased, err.message);
    return leased_finish(leased);
}

bool leased_execute(struct worker *worker, const struct verdict *verdict)
{
    struct leased leased = {.worker = worker,
                            .verdict = verdict,
                            .run = {.run = verdict->run, .attempt = verdict->taken.attempt, .node = verdict->taken.node},
                            .ends_ms = verdict->taken.expires_ms,
                            .label = BUFFER(LABEL_ANNOTATION_MAX),
                            .log = -1};
    const bool has_ended = execute(&leased);

    close_all(&leased);
    leased_leave(&leased);
    forget_key(&leased); /* the network between nodes uses it */
    return has_ended;
}
