/* The end of a leased run: its result, or its refusal, at the registry. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "runner/serve/kept.h"
#include "runner/serve/leased_priv.h"
#include "training/format/compose.h"

#define BODY_MAX      ((size_t)64 << 20) /* manifests of 4 MiB at most, for each of 18 subjects */
#define RESULT_MS     60000              /* of the lease, for the result: the log may take all the time before */
#define STILL_MS      60000              /* a registry that takes no more of the log, but heartbeats */
#define STOPPED_MS    10000              /* the serving process kills what takes too long */
#define REFUSED_UNTIL INT64_C(120000)    /* after so long the registry has lost the attempt anyway */

/* ---- sending ---- */

bool leased_send(struct worker *worker, const struct taken_lease *lease, struct bytes body)
{
    char run[UUID_TEXT_SIZE], state[ANSWER_STATE_SIZE] = "";
    struct error err = {0};

    uuid_format(&lease->run, run);
    for (unsigned attempt = 0; !calls_result(worker->calls, run, body, state, &err).ok; attempt++) {
        if (worker_tries_again(&err, attempt, lease->expires_ms)) continue;
        log_error("a result was not taken", &err);
        return err.kind != ERROR_UNAVAILABLE || clock_wall_ms() >= lease->expires_ms || !atomic_load(&worker_gives_up);
    }
    log_line(LOG_INFO, "result sent", "run", run, "state", state, NULL);
    return true;
}

bool leased_refuse(struct worker *worker, const struct run_envelope *lease, const struct order_refusal *refusal)
{
    char envelope[CHANNEL_ENVELOPE_SIZE];
    const struct leased_run run = {
        .run = run_text(lease, "run"), .attempt = (int)run_integer(lease, "attempt"), .node = (int)run_integer(lease, "node")};
    const int64_t until_ms = clock_wall_ms() + REFUSED_UNTIL;
    struct error err = {0};

    log_line(LOG_WARNING, "order refused", "run", run.run, "check", refusal->check, "reason", refusal->reason, NULL);
    if (!channel_refuse(worker->channel, lease, refusal, envelope, &err).ok) {
        log_error("a refusal can't be signed", &err);
        return false;
    }
    for (unsigned attempt = 0; !calls_refuse(worker->calls, &run, envelope, &err).ok; attempt++)
        if (!worker_tries_again(&err, attempt, until_ms)) {
            log_error("a refusal was not taken", &err);
            return false;
        }
    return true;
}

/* ---- the result ---- */

static size_t list_devices(const struct leased *leased, struct run_device devices[DEVICES_MAX])
{
    const struct device_grant *grant = &leased->verdict->grant;

    for (size_t i = 0; i < grant->count; i++) {
        const struct device *device = devices_at(leased->worker->devices, grant->which[i]);
        devices[i] = (struct run_device){.uuid = device->uuid,
                                         .type = device->type,
                                         .driver = device->driver,
                                         .memory_bytes = device->memory_bytes,
                                         .utilisation_percent = device->use_percent};
    }
    return grant->count;
}

static const char *stopped_by(const struct worker *worker)
{
    return worker->wish.run[0] == '\0' ? "the runner was stopped" : "the scheduler ended the job, or the runner was stopped";
}

/* Each pod shows its own. */
static enum isolation isolation_of(const struct leased *leased)
{
    const struct serve_options *options = leased->worker->options;

    return options->pods != NULL && leased->has_ended ? leased->ended.isolation : options->isolation;
}

static struct outcome outcome_for(const struct leased *leased)
{
    const struct ended_run ended = {.report = leased->has_ended ? &leased->ended : NULL,
                                    .fault = leased->fault[0] == '\0' ? NULL : leased->fault,
                                    .lacks = leased->run.node == 0 ? harvest_lacks(leased->harvest) : NULL,
                                    .lost = leased->has_lost_nodes ? leased->fault : NULL,
                                    .stopped = leased->stops != NULL   ? leased->stops
                                               : worker_cancelled != 0 ? stopped_by(leased->worker)
                                                                       : NULL,
                                    .output_max = leased->verdict->spec->limits.output_bytes};

    return outcome_of(&ended);
}

static struct result sign(const struct leased *leased, const struct harvested *harvested, const struct outcome *outcome,
                          struct buffer *envelope, struct error *err)
{
    const struct sandbox_report *report = &leased->ended;
    struct buffer OWNED_BUFFER payload = BUFFER(RUN_PAYLOAD_MAX);
    struct run_chain below = leased->verdict->bundle->chain;
    struct run_device devices[DEVICES_MAX];
    const struct run_result_parts parts = {.outputs = harvested->outputs,
                                           .output_count = harvested->output_count,
                                           .log = harvested->log,
                                           .metrics = harvested->metrics,
                                           .started_ms = leased->started_ms,
                                           .finished_ms = leased->finished_ms == 0 ? clock_wall_ms() : leased->finished_ms,
                                           .status = outcome->status,
                                           .reason = outcome->reason,
                                           .exit_status = outcome->exit_status,
                                           .signal = outcome->signal,
                                           .wall_ms = report->wall_ms,
                                           .cpu_ms = report->cpu_ms,
                                           .memory_bytes = report->memory_bytes,
                                           .output_bytes = report->output_bytes,
                                           .log_bytes = (int64_t)leased->log_bytes,
                                           .device_ms = (int64_t)leased->verdict->grant.count * report->wall_ms,
                                           .isolation = isolation_name(isolation_of(leased)),
                                           .devices = devices,
                                           .device_count = list_devices(leased, devices)};

    below.certificate = leased->certificate;
    TRY(run_result_write(&below, &parts, &payload, err));
    return run_sign(RUN_RESULT, buffer_bytes(&payload), leased->key, envelope, err);
}

static struct result compose(struct leased *leased, struct buffer *body, struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(RUN_ENVELOPE_MAX);
    struct harvested harvested;

    TRY(harvest_log(leased->harvest, leased->log, leased->log_bytes, err));
    const struct outcome outcome = outcome_for(leased);
    if (strcmp(outcome.status, "succeeded") != 0) harvest_drop(leased->harvest);
    TRY(harvest_finish(leased->harvest, &harvested, err));
    TRY(sign(leased, &harvested, &outcome, &envelope, err));
    log_line(LOG_INFO, "run ended", "run", leased->run.run, "status", outcome.status, "reason", outcome.reason, NULL);
    return calls_write_result(&leased->run, buffer_text(&envelope), harvested.manifests, body, err);
}

/* The registry takes no larger result. Then the run failed, and its result names no outputs. */
static struct result compose_within(struct leased *leased, struct buffer *body, struct error *err)
{
    TRY(compose(leased, body, err));
    if (body->length <= CALLS_RESULT_MAX) return SUCCESS;
    leased_fail(leased, "the manifests of its outputs are too large for one result: make fewer files, or an archive of them");
    buffer_clear(body);
    return compose(leased, body, err);
}

/* The registry keeps what it has of the log when the result comes, and no more. A lease that ends soon has half of its rest for the log. */
static void flush_log(struct leased *leased)
{
    const int64_t left_ms = leased->ends_ms - clock_wall_ms();
    const int64_t for_log_ms = left_ms > 2 * RESULT_MS ? left_ms - RESULT_MS : left_ms / 2;
    const struct teller_patience patience = {
        .until_ms = clock_monotonic_ms() + for_log_ms, .still_ms = STILL_MS, .stopped_ms = STOPPED_MS};

    teller_flush(leased->teller, &patience);
}

/* A result is worth more than its copy: without the copy, a kill before the answer loses it. */
static void keep_result(const struct leased *leased, struct bytes body)
{
    struct error err = {0};

    if (!kept_write(leased->worker->kept, &leased->verdict->taken, KEPT_RESULT, body, &err).ok)
        log_error("a result is not kept until the registry has it", &err);
}

bool leased_finish(struct leased *leased)
{
    struct buffer OWNED_BUFFER body = BUFFER(BODY_MAX);
    const char *refused = harvest_refusal(leased->harvest);
    struct error err = {0};

    if (refused != NULL) leased_fail(leased, refused);
    flush_log(leased);
    struct result done = SUCCESS;
    for (unsigned attempt = 0;; attempt++) {
        buffer_clear(&body);
        if (leased_is_left(leased)) return true;
        done = compose_within(leased, &body, &err);
        if (done.ok || !worker_tries_again(&err, attempt, leased->ends_ms)) break;
    }
    if (!done.ok) {
        log_error("a run has no result", &err);
        return true;
    }
    keep_result(leased, buffer_bytes(&body));
    return leased_send(leased->worker, &leased->verdict->taken, buffer_bytes(&body));
}
