/* A collection goes from project to project: it removes manifests that no rule keeps, then blobs that no manifest needs
 * (docs/garbage-collection.md). */
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "audit/job_permit.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "registry/jobs/clean_up.h"
#include "registry/jobs/collect_priv.h"
#include "registry/jobs/erased_store.h"
#include "registry/maintenance.h"
#include "registry/manifest_use_priv.h"
#include "registry/manifest_use_store.h"
#include "registry/metrics.h"

#define SAVE_MS 1000 /* how often the report is written again; the job saves the newest one */

/* ---- removing ---- */

struct removal_batch {
    sem_t done;
};

static void removed(struct record *record)
{
    struct removal *removal = (struct removal *)(void *)((char *)record - offsetof(struct removal, record));

    (void)sem_post(&removal->batch->done);
}

static enum action action_of(const struct removal *removal)
{
    if (removal->is_end) return ACTION_KEY_FORGOTTEN;
    if (!uuid_is_nil(&removal->blob.blob)) return ACTION_BLOB_COLLECT;
    return removal->manifest.why == COLLECT_EXPIRED ? ACTION_MANIFEST_EXPIRE : ACTION_MANIFEST_COLLECT;
}

static struct result run_removal(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct removal *removal = (const struct removal *)(const void *)change; /* its first member */
    const bool is_blob = !uuid_is_nil(&removal->blob.blob);

    permit_require(permit, action_of(removal), &removal->where);
    if (removal->is_end) return erased_project_empty(pg, &removal->where.project, err);
    if (is_blob) return collect_blob_row_delete(pg, &removal->blob.blob, err);
    if (removal->manifest.is_erased) return erased_manifest_delete(pg, &removal->manifest, err);
    if (removal->manifest.why == COLLECT_EXPIRED) return collect_manifest_row_expire(pg, &removal->manifest, err);
    return collect_manifest_row_delete(pg, &removal->manifest, err);
}

static struct result prepare(const struct collect_run *run, struct removal *removal, struct removal_batch *batch,
                             struct error *err)
{
    const bool is_blob = !uuid_is_nil(&removal->blob.blob);
    const struct action_pair pair = {.action = action_of(removal), .resource = removal->where};
    char id[UUID_TEXT_SIZE];

    removal->batch = batch;
    removal->change = (struct change){.run = run_removal, .invalidates = CHANGE_INVALIDATES_NOTHING};
    if (!is_blob && !removal->is_end) removal->change.invalidates = CHANGE_INVALIDATES_REPOSITORY;
    removal->change.repository = removal->manifest.repository;
    TRY(record_prepare_for_job(&pair, &removal->change, &removal->record, err));
    uuid_format(&run->job->job.id, id);
    (void)snprintf(removal->record.note, sizeof removal->record.note, "collection %s", id);
    if (removal->manifest.manifest.tags > 0)
        (void)snprintf(removal->record.note, sizeof removal->record.note, "collection %s, %lld tags", id,
                       (long long)removal->manifest.manifest.tags);
    removal->record.done = removed;
    return SUCCESS;
}

static struct result conclude(struct removal *removal, bool *removed_out, struct error *err)
{
    const enum record_status status = removal->record.status;
    const struct error why = removal->record.error;

    record_done(&removal->record);
    if (status != RECORD_DONE && (status != RECORD_REFUSED || why.kind != ERROR_CONFLICT))
        return failure(err, ERROR_UNAVAILABLE, "a removal could not be recorded: %.180s", why.message);
    *removed_out = status == RECORD_DONE;
    if (*removed_out && action_of(removal) == ACTION_MANIFEST_EXPIRE) metric_add(&registry_metrics_rows[METRIC_EXPIRED], 1);
    return SUCCESS;
}

struct result collect_remove(struct collect_run *run, struct removal *removals, size_t count, bool *removed_out,
                             struct error *err)
{
    struct removal_batch batch;
    struct result result = SUCCESS;
    size_t submitted = 0;

    (void)sem_init(&batch.done, 0, 0);
    for (; submitted < count && result.ok; submitted++) {
        result = prepare(run, &removals[submitted], &batch, err);
        if (!result.ok) break;
        sequencer_submit(run->job->registry->sequencer, &removals[submitted].record);
    }
    for (size_t i = 0; i < submitted; i++)
        while (sem_wait(&batch.done) != 0) continue;
    for (size_t i = 0; i < submitted; i++) {
        struct error later = {0};
        const struct result concluded = conclude(&removals[i], &removed_out[i], result.ok ? err : &later);
        if (result.ok) result = concluded;
    }
    (void)sem_destroy(&batch.done);
    return result;
}

/* ---- manifests that a dry run counts as removed ---- */

struct result collect_note_gone(struct collect_run *run, const char *digest, struct error *err)
{
    struct gone_list *gone = &run->gone;

    if (gone->entries == NULL) {
        gone->entries = memory_zeroed(GONE_MAX, sizeof *gone->entries);
        gone->repositories = memory_zeroed(GONE_MAX, sizeof *gone->repositories);
        gone->digests = memory_zeroed(GONE_MAX, sizeof *gone->digests);
    }
    if (gone->entries == NULL || gone->repositories == NULL || gone->digests == NULL)
        return failure(err, ERROR_NO_MEMORY, "no memory for a dry run");
    if (gone->count == GONE_MAX) return failure(err, ERROR_LIMIT, "a dry run of more than %d manifests", GONE_MAX);
    struct gone *entry = &gone->entries[gone->count];
    entry->repository = run->repository.id;
    (void)snprintf(entry->digest, sizeof entry->digest, "%s", digest);
    gone->repositories[gone->count] = (struct bytes){entry->repository.bytes, sizeof entry->repository.bytes};
    gone->digests[gone->count++] = bytes_of_text(entry->digest);
    return SUCCESS;
}

struct collect_gone collect_gone_of_project(const struct collect_run *run)
{
    return (struct collect_gone){run->gone.count, run->gone.repositories, run->gone.digests};
}

struct collect_gone collect_gone_of_repository(const struct collect_run *run)
{
    const struct gone_list *gone = &run->gone;

    if (gone->count == gone->from) return (struct collect_gone){0};
    return (struct collect_gone){gone->count - gone->from, gone->repositories + gone->from, gone->digests + gone->from};
}

/* ---- the report ---- */

static struct result set_number(json_t *object, const char *member, int64_t value, struct error *err)
{
    if (json_object_set_new(object, member, json_integer(value)) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a report");
}

static struct result set_totals(json_t *object, const struct collect_totals *totals, struct error *err)
{
    TRY(set_number(object, "blobs", totals->blobs, err));
    TRY(set_number(object, "bytes", totals->bytes, err));
    TRY(set_number(object, "manifests", totals->manifests, err));
    TRY(set_number(object, "tags", totals->tags, err));
    return set_number(object, "blobs_looked_at", totals->looked_at, err);
}

static struct result write_report(const struct collect_run *run, struct buffer *text, struct error *err)
{
    OWNED_JSON report = json_object();

    if (report == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a report");
    TRY(set_totals(report, &run->totals, err));
    TRY(set_number(report, "sessions", run->totals.sessions, err));
    if (json_object_set(report, "projects", run->projects) != 0 || json_object_set(report, "removed", run->removed) != 0 ||
        json_object_set(report, "unmet", run->unmet) != 0 ||
        json_object_set_new(report, "is_whole", json_boolean(!run->is_cut)) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for a report");
    return json_write_canonical(text, report, err);
}

/* Replaces the job's report as a whole, so the job never saves half a report. */
static struct result save_report(struct collect_run *run, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(JOB_REPORT_MAX);

    TRY(write_report(run, &text, err));
    const struct buffer before = run->job->report;
    run->job->report = text;
    text = before;
    run->reported_ms = clock_monotonic_ms();
    run->job->job.done = (uint64_t)run->totals.looked_at;
    return SUCCESS;
}

struct result collect_go_on(struct collect_run *run, struct error *err)
{
    if (clock_monotonic_ms() - run->reported_ms >= SAVE_MS) TRY(save_report(run, err));
    if (job_go_on(run->job)) return SUCCESS;
    run->is_stopped = true;
    return failure(err, ERROR_UNAVAILABLE, "the collection was stopped");
}

/* Continues from the report of an earlier runner: its removals count too. */
static struct result read_report(struct collect_run *run, const char *text, struct error *err)
{
    struct collect_totals *totals = &run->totals;
    OWNED_JSON report = NULL;

    TRY(json_read(bytes_of_text(text), JOB_REPORT_MAX, &report, err));
    (void)json_integer_of(report, "blobs", &totals->blobs);
    (void)json_integer_of(report, "bytes", &totals->bytes);
    (void)json_integer_of(report, "manifests", &totals->manifests);
    (void)json_integer_of(report, "tags", &totals->tags);
    (void)json_integer_of(report, "sessions", &totals->sessions);
    totals->looked_at = (int64_t)run->job->job.cursor_bytes;
    run->is_cut = json_is_false(json_object_get(report, "is_whole"));
    json_t *projects = json_object_get(report, "projects");
    if (projects == NULL || json_array_extend(run->projects, projects) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a report");
}

#define PROJECTS_MAX 1000 /* projects in one report; projects without a removal are left out */

static struct result report_project(struct collect_run *run, const struct collect_totals *before, struct error *err)
{
    const struct collect_totals *after = &run->totals;
    const struct collect_totals own = {.looked_at = after->looked_at - before->looked_at,
                                       .blobs = after->blobs - before->blobs,
                                       .bytes = after->bytes - before->bytes,
                                       .manifests = after->manifests - before->manifests,
                                       .tags = after->tags - before->tags};

    if (own.blobs == 0 && own.manifests == 0) return SUCCESS;
    if (json_array_size(run->projects) == PROJECTS_MAX) {
        run->is_cut = true;
        return SUCCESS;
    }
    json_t *object = json_pack("{s:s}", "name", run->project.name);
    if (object == NULL || json_array_append_new(run->projects, object) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for a report");
    return set_totals(object, &own, err);
}

/* ---- a run ---- */

/* A project whose rules can't be read keeps everything. The other projects are collected as usual. */
static struct result read_rules(struct collect_run *run, struct error *err)
{
    const char *document = run->try_rules == NULL ? run->project.rules : run->try_rules;

    const struct result read = rules_read(bytes_of_text(document), &run->rules, err);
    if (read.ok || run->try_rules != NULL || err->kind == ERROR_NO_MEMORY) return read;
    log_error("a project's rules can't be read, so all its manifests are kept", err);
    run->is_cut = true;
    return rules_read(bytes_of_text("{}"), &run->rules, err);
}

static struct result collect_project(struct collect_run *run, struct error *err)
{
    const struct collect_totals before = run->totals;

    rules_free(GIVE(run->rules));
    run->gone.count = run->gone.from = 0;
    TRY(read_rules(run, err));
    run->job->job.phase = COLLECT_MANIFESTS;
    TRY(collect_erased(run, err));
    if (!run->project.is_deleted) TRY(collect_manifests(run, err));
    run->job->job.phase = COLLECT_BLOBS;
    TRY(collect_blobs(run, err));
    TRY(collect_erased_project(run, err));
    return report_project(run, &before, err);
}

static struct result collect_projects(struct collect_run *run, struct error *err)
{
    struct job *job = &run->job->job;
    const struct uuid *only = uuid_is_nil(&job->project) ? NULL : &job->project;

    for (;;) {
        OWNED(pg_rows) *rows = NULL;
        TRY(collect_go_on(run, err));
        TRY(collect_next_project(run->pg, &job->cursor, only, &run->project, &rows, err));
        if (pg_rows_count(rows) == 0) return SUCCESS;
        TRY(collect_project(run, err));
        job->cursor = run->project.id;
        job->cursor_bytes = (uint64_t)run->totals.looked_at;
    }
}

/* Cleans all projects, because the collection reads no manifests of projects without rules. */
static struct result clean_uses(struct collect_run *run, struct error *err)
{
    struct manifest_use last = {.digest = ""};
    bool found = true;

    if (run->job->job.is_dry_run) return SUCCESS;
    while (found) {
        TRY(collect_go_on(run, err));
        TRY(manifest_uses_clean_some(run->pg, &last, &found, err));
    }
    return SUCCESS;
}

static struct result end_sessions(struct collect_run *run, struct error *err)
{
    size_t ended = 1;

    if (run->job->job.is_dry_run)
        return collect_count_expired(run->pg, &run->job->registry->uploads_open, &run->totals.sessions, err);
    while (ended > 0) {
        TRY(collect_go_on(run, err));
        TRY(registry_end_expired(run->job->registry, run->pg, &ended, err));
        run->totals.sessions += (int64_t)ended;
    }
    return SUCCESS;
}

/* A dry run begins again, because the manifests that it counted as removed are in no table. */
static struct result take_up(struct collect_run *run, const char *report, struct error *err)
{
    struct job *job = &run->job->job;

    run->projects = json_array();
    run->removed = json_array();
    run->unmet = json_array();
    if (run->projects == NULL || run->removed == NULL || run->unmet == NULL)
        return failure(err, ERROR_NO_MEMORY, "no memory for a report");
    if (job->is_dry_run) {
        job->phase = COLLECT_SESSIONS;
        job->cursor = (struct uuid){0};
    } else {
        TRY(read_report(run, report, err));
    }
    TRY(registry_write_notes(run->job->registry, run->pg, err));
    TRY(collect_count_blobs(run->pg, uuid_is_nil(&job->project) ? NULL : &job->project, &job->total, err));
    job->total += (uint64_t)run->totals.blobs;
    return SUCCESS;
}

static struct result collect(struct collect_run *run, const char *report, struct error *err)
{
    struct job *job = &run->job->job;

    TRY(take_up(run, report, err));
    if (job->phase == COLLECT_SESSIONS && uuid_is_nil(&job->project)) TRY(end_sessions(run, err));
    TRY(collect_projects(run, err));
    if (uuid_is_nil(&job->project)) TRY(clean_uses(run, err));
    if (uuid_is_nil(&job->project) && !job->is_dry_run) {
        metric_set(&registry_metrics_rows[METRIC_OVERDUE], run->overdue);
        metric_set(&registry_metrics_rows[METRIC_LACKING], run->lacking);
    }
    job->phase = JOB_DONE;
    return SUCCESS;
}

static void run_done(struct collect_run *run)
{
    json_decref(run->projects);
    json_decref(run->removed);
    json_decref(run->unmet);
    rules_free(run->rules);
    free(run->gone.entries);
    free(run->gone.repositories);
    free(run->gone.digests);
}

struct result collection_run(struct job_run *job, struct error *err)
{
    struct collect_run run = {.job = job, .pg = job->pg, .lease_s = job->registry->lease_s};
    struct job_texts texts;
    struct error untold = {0};
    OWNED(pg_rows) *rows = NULL;

    permit_require(job->permit, ACTION_JOB_RUN, &job->where);
    TRY(job_row_texts(job->pg, &job->job.id, &texts, &rows, err));
    job->job.waits_for[0] = '\0';
    run.try_rules = texts.rules;
    const struct result done = collect(&run, texts.report, err);
    const struct result told = run.projects == NULL ? done : save_report(&run, &untold);
    run_done(&run);
    if (!done.ok && !run.is_stopped) return done;
    if (!told.ok) return failure(err, untold.kind, "%s", untold.message);
    return SUCCESS;
}

/* ---- scheduled collections ---- */

struct result job_begin_collection_if_due(struct registry *registry, struct pg *pg, int64_t interval_s, struct error *err)
{
    const struct job job = {.kind = JOB_COLLECTION, .id = uuid_random()};
    bool is_due = false;

    TRY(job_collection_is_due(pg, interval_s, &is_due, err));
    return is_due ? job_begin_scheduled(registry, &job, err) : SUCCESS;
}
