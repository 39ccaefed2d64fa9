/* How a gateway runs a job: lease, pace, findings, end. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "audit/job_permit.h"
#include "base/clock.h"
#include "registry/jobs/job_priv.h"
#include "registry/metrics.h"
#include "registry/recorder.h"
#include "registry/stored_blob_store.h"

enum {
    LEASE_MS = 30000,
    SAVES_PER_LEASE = 15, /* every 2 s */
    SLICE_MS = 100,       /* during a wait, how often the job checks whether it must stop */
    FINDINGS_MAX = 10000, /* of one job: no person reads more of them */
};

int64_t job_lease_ms(const struct job_options *options)
{
    return options->lease_ms == 0 ? LEASE_MS : options->lease_ms;
}

static bool is_stopping(const struct job_run *run)
{
    return run->is_lost || run->job.stop_wanted || run->options->is_stopping(run->options->context);
}

static const char *report_of(const struct job_run *run)
{
    return run->report.length == 0 ? NULL : buffer_text(&run->report);
}

static struct result save(struct job_run *run, int64_t lease_ms, struct error *err)
{
    const struct job_saving saving = {.lease_ms = lease_ms, .report = report_of(run)};
    bool stop = false;

    if (pg_is_broken(run->pg)) TRY(pg_reopen(run->pg, err));
    const struct result saved = job_row_save(run->pg, &run->job, &saving, &stop, err);
    if (!saved.ok && err->kind == ERROR_CONFLICT) run->is_lost = true;
    TRY(saved);
    run->job.stop_wanted = stop;
    run->saved_ms = clock_monotonic_ms();
    return SUCCESS;
}

struct result job_save(struct job_run *run, struct error *err)
{
    return save(run, job_lease_ms(run->options), err);
}

/* After its lease the job may belong to another gateway. So a runner that could not save in time stops, and claims a job
 * again. */
bool job_go_on(struct job_run *run)
{
    const int64_t now_ms = clock_monotonic_ms(), lease_ms = job_lease_ms(run->options);
    struct error ignored = {0};

    if (is_stopping(run)) return false;
    if (now_ms - run->saved_ms < lease_ms / SAVES_PER_LEASE) return true;
    if (!job_save(run, &ignored).ok && now_ms - run->saved_ms > lease_ms / 2) run->is_lost = true;
    return !is_stopping(run);
}

static void sleep_ms(int64_t wait_ms)
{
    const struct timespec wait = {.tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000};

    (void)nanosleep(&wait, NULL);
}

static bool wait_until(struct job_run *run, int64_t until_ms)
{
    for (int64_t left_ms; (left_ms = until_ms - clock_monotonic_ms()) > 0;) {
        if (!job_go_on(run)) return false;
        sleep_ms(left_ms < SLICE_MS ? left_ms : SLICE_MS);
    }
    return job_go_on(run);
}

bool job_wait(struct job_run *run, unsigned wait_ms, const char *why)
{
    struct error ignored = {0};

    (void)snprintf(run->job.waits_for, sizeof run->job.waits_for, "%.299s", why);
    if (!job_save(run, &ignored).ok && run->is_lost) return false;
    const bool goes_on = wait_until(run, clock_monotonic_ms() + wait_ms);
    run->job.waits_for[0] = '\0';
    return goes_on;
}

/* There is no burst after a pause: unused bytes are lost. */
bool job_pace(struct job_run *run, uint64_t bytes)
{
    const int64_t now_us = clock_monotonic_ms() * 1000;

    if (run->job.rate_bytes == 0) return job_go_on(run);
    if (run->next_read_us < now_us) run->next_read_us = now_us;
    run->next_read_us += (int64_t)(bytes * 1000000 / run->job.rate_bytes);
    return wait_until(run, run->next_read_us / 1000);
}

/* ---- Findings ---- */

struct finding_change {
    struct change change;
    const struct job_run *run;
    const struct job_finding *finding;
    const struct uuid *blob; /* to be marked, or NULL */
    struct action_pair pair;
};

static struct result run_finding(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct finding_change *found = (const struct finding_change *)(const void *)change; /* its first member */

    permit_require(permit, found->pair.action, &found->pair.resource);
    TRY(job_row_add_finding(pg, &found->run->job, found->finding, err));
    return found->blob == NULL ? SUCCESS : blob_row_note_damage(pg, found->blob, err);
}

struct result job_report(struct job_run *run, const struct job_finding *finding, const struct resource *where,
                         const struct uuid *blob, struct error *err)
{
    struct finding_change found = {
        .change = {.run = run_finding, .invalidates = CHANGE_INVALIDATES_NOTHING},
        .run = run,
        .finding = finding,
        .blob = blob,
        .pair = {.action = blob == NULL ? ACTION_SCRUB_FINDING : ACTION_BLOB_DAMAGED, .resource = *where}};
    struct job_recorder recorder;
    OWNED(permit) *permit = NULL;
    char note[80]; /* the longest note */
    bool is_known = false;

    TRY(job_row_has_finding(run->pg, &run->job, finding, &is_known, err));
    if (is_known) return SUCCESS;
    TRY(permit_for_job(run->registry->sequencer, &found.pair, &permit, err));
    (void)snprintf(note, sizeof note, "%s: %.*s", finding_kind_name(finding->kind), 60, finding->detail);
    job_recorder_init(&recorder, run->registry->sequencer, permit);
    const struct result recorded = recorder.recorder.record(&recorder.recorder, OUTCOME_COMPLETED, note, &found.change, err);
    if (!recorded.ok && err->kind == ERROR_CONFLICT) run->is_lost = true;
    TRY(recorded);
    metric_add(&registry_metrics_rows[METRIC_FOUND_FIRST + finding->kind], 1);
    run->job.found++;
    if (run->job.found >= FINDINGS_MAX) return failure(err, ERROR_LIMIT, "%d findings: mend the region first", FINDINGS_MAX);
    return SUCCESS;
}

/* ---- From claim to end ---- */

struct end_change {
    struct change change;
    const struct job_run *run;
    const char *outcome;
};

static struct result run_end(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct end_change *end = (const struct end_change *)(const void *)change; /* its first member */

    const struct job_saving saving = {.report = report_of(end->run), .outcome = end->outcome};
    bool ignored = false;

    permit_require(permit, ACTION_JOB_RUN, &end->run->where);
    return job_row_save(pg, &end->run->job, &saving, &ignored, err);
}

static const char *const endings[JOB_ENDING_COUNT] = {
#define X(constant, name) name,
    JOB_ENDINGS(X)
#undef X
};

static void count_end(enum job_kind kind, enum job_ending ending)
{
    metric_add(&registry_metrics_rows[METRIC_SCRUB_COMPLETED + kind * JOB_ENDING_COUNT + ending], 1);
}

/* `why` is the failure; NULL if there was none. */
static struct result end(struct job_run *run, enum job_ending ending, const char *why, struct error *err)
{
    const char *outcome = endings[ending];
    struct end_change change = {
        .change = {.run = run_end, .invalidates = CHANGE_INVALIDATES_NOTHING}, .run = run, .outcome = outcome};
    struct job_recorder recorder;
    char note[80]; /* the longest note */

    (void)snprintf(run->job.waits_for, sizeof run->job.waits_for, "%.299s", why == NULL ? "" : why);
    (void)snprintf(note, sizeof note, "%s: %" PRIu64 " done, %" PRIu64 " found", outcome, run->job.done, run->job.found);
    job_recorder_init(&recorder, run->registry->sequencer, run->permit);
    const enum outcome recorded = ending == JOB_FAILED ? OUTCOME_FAILED : OUTCOME_COMPLETED;
    TRY(recorder.recorder.record(&recorder.recorder, recorded, note, &change.change, err));
    count_end(run->job.kind, ending);
    const unsigned kept = run->options->kept == 0 ? JOBS_KEPT : run->options->kept;
    struct error ignored = {0}; /* if it fails, the next job that ends prunes more */
    (void)job_rows_prune(run->pg, &run->job, kept, &ignored).ok;
    return SUCCESS;
}

/* Releases the job. Another gateway, or this one after its next start, continues from here. */
static void release(struct job_run *run)
{
    struct error ignored = {0};

    if (!run->is_lost) (void)save(run, 0, &ignored).ok;
}

static struct result (*const runners[JOB_KIND_COUNT])(struct job_run *run, struct error *err) = {
#define X(constant, name, action, run, first, second, third) [constant] = (run),
    JOB_KINDS(X)
#undef X
};

static bool may_be_over_soon(enum error_kind kind)
{
    return kind == ERROR_UNAVAILABLE || kind == ERROR_UNCERTAIN || kind == ERROR_NO_MEMORY || kind == ERROR_FULL;
}

static struct result work(struct job_run *run, struct error *err)
{
    const struct result worked = runners[run->job.kind](run, err);

    if (!worked.ok && may_be_over_soon(err->kind)) {
        if (run->job.stop_wanted && !run->is_lost) return end(run, JOB_STOPPED, NULL, err); /* so it is not retried */
        (void)snprintf(run->job.waits_for, sizeof run->job.waits_for, "%.255s", err->message);
        release(run);
        metric_add(&registry_metrics_rows[METRIC_JOBS_RETRIED], 1);
        return worked;
    }
    if (run->is_lost) return SUCCESS;
    if (!worked.ok) {
        const struct error why = *err;
        return end(run, JOB_FAILED, why.message, err);
    }
    if (run->job.phase == JOB_DONE) return end(run, JOB_COMPLETED, NULL, err);
    if (run->job.stop_wanted) return end(run, JOB_STOPPED, NULL, err);
    release(run);
    return SUCCESS;
}

/* The begin or the continuation of a job is recorded before anything is read. */
static struct result permit_run(struct job_run *run, struct error *err)
{
    struct action_pair pair = {.action = ACTION_JOB_RUN, .resource = {.kind = RESOURCE_SYSTEM}};
    char id[UUID_TEXT_SIZE];

    uuid_format(&run->job.id, id);
    (void)snprintf(pair.resource.region, sizeof pair.resource.region, "%s", run->job.region);
    (void)snprintf(pair.resource.detail, sizeof pair.resource.detail, "%s,%s", job_kind_name(run->job.kind), id);
    run->where = pair.resource;
    return permit_for_job(run->registry->sequencer, &pair, &run->permit, err);
}

static struct result work_on(struct job_run *run, struct error *err)
{
    const struct result permitted = permit_run(run, err);

    if (!permitted.ok) {
        release(run);
        return permitted;
    }
    run->began_ms = run->saved_ms = clock_monotonic_ms();
    metric_add(&registry_metrics_rows[METRIC_JOBS_NOW], 1);
    const struct result worked = work(run, err);
    metric_add(&registry_metrics_rows[METRIC_JOBS_NOW], -1);
    permit_free(run->permit);
    buffer_done(&run->report);
    return worked;
}

struct result registry_work(struct registry *registry, struct pg *pg, const struct job_options *options, bool *worked_out,
                            struct error *err)
{
    struct job_run run = {.registry = registry, .pg = pg, .options = options, .report = BUFFER(JOB_REPORT_MAX)};
    struct job_regions regions = {.count = registry->region_count};
    bool found = false;

    for (size_t i = 0; i < regions.count; i++) regions.ids[i] = bytes_of_text(registry->regions[i].id);
    TRY(job_row_claim(pg, options, &regions, &run.job, &found, err));
    if (found) TRY(work_on(&run, err));
    *worked_out = found;
    return SUCCESS;
}

static const enum action begins[JOB_KIND_COUNT] = {
#define X(constant, name, action, run, first, second, third) [constant] = (action),
    JOB_KINDS(X)
#undef X
};

struct result job_begin_scheduled(struct registry *registry, const struct job *job, struct error *err)
{
    struct action_pair pair = {.action = begins[job->kind], .resource.kind = RESOURCE_SYSTEM};
    struct job_begin change;
    struct record record;

    uuid_format(&job->id, pair.resource.detail);
    (void)snprintf(pair.resource.region, sizeof pair.resource.region, "%s", job->region);
    job_begin_prepare(&pair.resource, job, &change);
    TRY(record_prepare_for_job(&pair, &change.change, &record, err));
    sequencer_submit_and_wait(registry->sequencer, &record);
    const enum record_status status = record.status;
    const struct error why = record.error;
    record_done(&record);
    if (status == RECORD_DONE || (status == RECORD_REFUSED && why.kind == ERROR_CONFLICT)) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "a %s can't be recorded: %.180s", job_kind_name(job->kind), why.message);
}
