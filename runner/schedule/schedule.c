#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/notify.h"
#include "base/process.h"
#include "crypto/random.h"
#include "runner/enrolment/certificate.h"
#include "runner/schedule/schedule_priv.h"

#define EVERY_MS     2000
#define AGAIN_MS     5000 /* after a failure */
#define ASSURANCE_OF 1    /* a runner that only schedules */

static atomic_bool gives_up;

/* A call that is under way ends at once. */
static void on_signal(int number)
{
    (void)number;
    atomic_store(&gives_up, true);
}

static bool is_told_to_stop(const struct scheduler *scheduler)
{
    return atomic_load(&gives_up) || *scheduler->options->stops != 0;
}

static void pause_for(const struct scheduler *scheduler, int64_t milliseconds)
{
    const struct timespec tenth = {.tv_nsec = 100000000};

    for (int64_t passed = 0; passed < milliseconds && !is_told_to_stop(scheduler); passed += 100) (void)nanosleep(&tenth, NULL);
}

static struct result connect_calls(struct scheduler *scheduler, struct error *err)
{
    calls_free(scheduler->calls);
    scheduler->calls = NULL;
    TRY(calls_open(&scheduler->http, scheduler->session, &scheduler->calls, err));
    calls_give_up_when(scheduler->calls, &gives_up);
    return SUCCESS;
}

static struct result look(struct scheduler *scheduler, struct error *err)
{
    struct runner_state *state = scheduler->options->state;
    bool is_renewed = false;
    struct error why = {0};

    if (!runner_renew(state, clock_wall_ms(), &is_renewed, &why).ok && state->certificate_until_ms <= clock_wall_ms())
        return failure(err, why.kind, "no client certificate: %.220s", why.message);
    if (is_renewed || scheduler->calls == NULL) TRY(connect_calls(scheduler, err));
    return scheduler_round(scheduler, err);
}

/* The same failure is logged once, until there is another one or none. The next look finds the cluster's version anew. */
static int64_t note(struct scheduler *scheduler, struct result looked, const struct error *err)
{
    if (looked.ok) {
        if (scheduler->said[0] != '\0') log_line(LOG_INFO, "the registry and the cluster answer again", NULL);
        scheduler->said[0] = '\0';
        return EVERY_MS;
    }
    slurm_free(scheduler->slurm);
    scheduler->slurm = NULL;
    if (strcmp(scheduler->said, err->message) != 0 && !is_told_to_stop(scheduler))
        log_error("jobs can't be started or ended now", err);
    (void)snprintf(scheduler->said, sizeof scheduler->said, "%s", err->message);
    return AGAIN_MS;
}

/* ---- the beginning ---- */

/* A stolen key of this machine would get every run that a runner with its document gets. */
static struct result check_own(const struct schedule_options *options, struct error *err)
{
    struct buffer OWNED_BUFFER features = BUFFER((size_t)4 * SLURM_NODES_SIZE);

    if (options->state->own.assurance > ASSURANCE_OF)
        return failure(
            err, ERROR_DENIED,
            "this machine only schedules, and was enrolled with the assurance %lld: enrol it with the assurance %d, so "
            "that its key gets no run that needs more",
            (long long)options->state->own.assurance, ASSURANCE_OF);
    if (options->region_count == 0)
        return failure(err, ERROR_INVALID, "--slurm-region is missing: the region of the cluster's nodes, once for each");
    return plan_features(options->regions, options->region_count, &features, err);
}

/* A cluster that can't be reached now may be reached later; a wrong option stays wrong. */
static struct result open_cluster(struct scheduler *scheduler, struct error *err)
{
    struct error why = {0};

    if (slurm_open(&scheduler->options->slurm, &scheduler->slurm, &why).ok || why.kind != ERROR_INVALID) return SUCCESS;
    return failure(err, why.kind, "%s", why.message);
}

static struct result begin(struct scheduler *scheduler, struct error *err)
{
    const struct runner_state *state = scheduler->options->state;

    TRY(check_own(scheduler->options, err));
    TRY(open_cluster(scheduler, err));
    TRY(lease_journal_open(state->folder, &scheduler->journal, err));
    random_bytes(scheduler->session, sizeof scheduler->session);
    uuid_format(&state->own.runner, scheduler->own);
    plan_prefix(scheduler->own, scheduler->prefix);
    scheduler->http = (struct http_options){.host = state->registry.host,
                                            .ca_file = state->ca_file,
                                            .certificate_file = state->certificate_file,
                                            .key_file = state->key_file};
    return SUCCESS;
}

static struct result run(struct scheduler *scheduler, struct error *err)
{
    TRY(begin(scheduler, err));
    process_end_by(on_signal);
    log_line(LOG_INFO, "scheduling", "registry", scheduler->options->state->registry.host, "runner", scheduler->own, "pool",
             scheduler->options->state->own.pool, "slurm", scheduler->options->slurm.url, NULL);
    (void)notify_send("READY=1");
    while (!is_told_to_stop(scheduler) && !scheduler->is_suspended) {
        struct error why = {0};
        pause_for(scheduler, note(scheduler, look(scheduler, &why), &why));
    }
    if (scheduler->is_suspended)
        log_line(LOG_ERROR, "the registry has suspended this runner's key: revoke it, and enrol the runner anew", NULL);
    (void)notify_send("STOPPING=1");
    log_line(LOG_INFO, "stopped", NULL);
    return SUCCESS;
}

struct result schedule(const struct schedule_options *options, bool *suspended_out, struct error *err)
{
    struct schedule_options own = *options;
    struct scheduler scheduler = {.options = &own};

    own.slurm.gives_up = &gives_up;
    const struct result done = run(&scheduler, err);
    if (done.ok) *suspended_out = scheduler.is_suspended;
    free(scheduler.tracked);
    slurm_free(scheduler.slurm);
    calls_free(scheduler.calls);
    lease_journal_free(scheduler.journal);
    return done;
}
