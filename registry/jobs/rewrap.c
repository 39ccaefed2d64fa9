/* Wraps all keys under the newest version: of blobs, then projects, then uploads; repeats until no older one is left
 * (docs/keys.md). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/subject_rewrap.h"
#include "base/clock.h"
#include "crypto/keyd_region.h"
#include "registry/jobs/job_priv.h"
#include "registry/jobs/rewrap_store.h"
#include "registry/metrics.h"
#include "registry/recorder.h"
#include "registry/registry_priv.h"

enum {
    TRY_AGAIN_MS = 2000,
    PASS_AGAIN_MS = 1000, /* rows that were locked are free by then */
    /* Before sijil-keyd knew the newest version, it may have wrapped keys that are not inserted yet. No request takes
     * longer than this to insert its key, so the last pass finds such rows. */
    SETTLE_MS = 60000,
};

struct rewrapping {
    struct job_run *run;
    const char *ring;      /* as in struct rewrap_page: each sijil-keyd has versions of its own */
    uint64_t found_before; /* of keys of other rings */
    uint32_t version;
    struct rewrap_key keys[REWRAP_BATCH];
    size_t count;
    uint64_t changed;
};

/* A key that does not unwrap is a finding. It is lost already, so the job goes on. */
static struct result report_key(struct rewrapping *rewrapping, const struct rewrap_key *key, const struct error *why,
                                struct error *err)
{
    struct job_finding finding = {.kind = FINDING_KEY};

    uuid_format(&key->record.id, finding.subject);
    (void)snprintf(finding.detail, sizeof finding.detail, "version %u: %s", key->record.wrapped.version, why->message);
    return job_report(rewrapping->run, &finding, &rewrapping->run->where, NULL, err);
}

static struct result report_subjects(struct rewrapping *rewrapping, uint64_t bad, struct error *err)
{
    struct job_finding finding = {.kind = FINDING_KEY};

    (void)snprintf(finding.subject, sizeof finding.subject, "keys of subjects");
    (void)snprintf(finding.detail, sizeof finding.detail, "%" PRIu64 " do not unwrap", bad);
    return job_report(rewrapping->run, &finding, &rewrapping->run->where, NULL, err);
}

/* False: stopped. */
static bool wrap_one(struct rewrapping *rewrapping, struct rewrap_key *key, struct error *why)
{
    const struct job_run *run = rewrapping->run;
    const struct key_binding binding = key_binding_of(&key->scope, &key->record.id, key->record.commitment);

    *why = (struct error){0};
    while (!keyd_rewrap(run->registry->keyd, &binding, &key->record.wrapped, &key->fresh, why).ok) {
        if (why->kind == ERROR_CORRUPT || why->kind == ERROR_INVALID) return true;
        if (!job_wait(rewrapping->run, TRY_AGAIN_MS, why->message)) return false;
        *why = (struct error){0};
    }
    return true;
}

/* Moves the keys that were wrapped to the front. */
static struct result wrap_all(struct rewrapping *rewrapping, bool *stopped_out, struct error *err)
{
    size_t good = 0;

    for (size_t i = 0; i < rewrapping->count; i++) {
        struct error why;
        if (!job_go_on(rewrapping->run) || !wrap_one(rewrapping, &rewrapping->keys[i], &why)) {
            *stopped_out = true;
            return SUCCESS;
        }
        if (why.kind != ERROR_NONE) TRY(report_key(rewrapping, &rewrapping->keys[i], &why, err));
        else rewrapping->keys[good++] = rewrapping->keys[i];
    }
    rewrapping->count = good;
    *stopped_out = false;
    return SUCCESS;
}

/* Gateways cache manifests with their wrapped keys, so the change announces that these changed. */
struct replace_change {
    struct change change;
    struct rewrapping *rewrapping;
};

static struct result run_replace(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct replace_change *replace = (const struct replace_change *)(const void *)change; /* its first member */
    struct rewrapping *rewrapping = replace->rewrapping;

    permit_require(permit, ACTION_JOB_RUN, &rewrapping->run->where);
    return rewrap_replace(pg, KEYS_OF_PROJECTS, rewrapping->keys, rewrapping->count, &rewrapping->changed, err);
}

static struct result replace_projects(struct rewrapping *rewrapping, struct error *err)
{
    struct replace_change change = {.change = {.run = run_replace, .invalidates = CHANGE_INVALIDATES_ALL},
                                    .rewrapping = rewrapping};
    struct job_recorder recorder;
    char note[80]; /* the longest note */

    (void)snprintf(note, sizeof note, "keys of projects under version %u: %zu", rewrapping->version, rewrapping->count);
    job_recorder_init(&recorder, rewrapping->run->registry->sequencer, rewrapping->run->permit);
    /* cppcheck-suppress returnDanglingLifetime ; a result is a truth value, and keeps no address */
    return recorder.recorder.record(&recorder.recorder, OUTCOME_COMPLETED, note, &change.change, err);
}

static struct result replace(struct rewrapping *rewrapping, enum key_table table, struct error *err)
{
    struct job *job = &rewrapping->run->job;

    rewrapping->changed = 0;
    if (rewrapping->count == 0) return SUCCESS;
    rewrapping->version = rewrapping->keys[0].fresh.version;
    if (table == KEYS_OF_PROJECTS) TRY(replace_projects(rewrapping, err));
    else TRY(rewrap_replace(rewrapping->run->pg, table, rewrapping->keys, rewrapping->count, &rewrapping->changed, err));
    job->done += rewrapping->changed;
    metric_add(&registry_metrics_rows[METRIC_REWRAPPED], (int64_t)rewrapping->changed);
    return SUCCESS;
}

static struct result rewrap_page(struct rewrapping *rewrapping, enum key_table table, struct error *err)
{
    struct job *job = &rewrapping->run->job;
    const struct rewrap_page page = {
        .table = table, .ring = rewrapping->ring, .version = rewrapping->version, .after = job->cursor, .limit = REWRAP_BATCH};
    bool stopped = false;

    TRY(rewrap_keys(rewrapping->run->pg, &page, rewrapping->keys, &rewrapping->count, err));
    if (rewrapping->count == 0) {
        job->phase++;
        job->cursor = (struct uuid){0};
        return SUCCESS;
    }
    const struct uuid last = rewrapping->keys[rewrapping->count - 1].row;
    TRY(wrap_all(rewrapping, &stopped, err));
    if (stopped) return SUCCESS;
    TRY(replace(rewrapping, table, err));
    job->cursor = last;
    return SUCCESS;
}

/* How many rows have a key under an older version, also keys that do not unwrap. */
static struct result count_old(const struct rewrapping *rewrapping, uint64_t *old_out, struct error *err)
{
    const uint32_t version = rewrapping->version;
    struct key_count counts[KEY_COUNTS_MAX];
    size_t count = 0;
    uint64_t old = 0;

    TRY(rewrap_count(rewrapping->run->pg, rewrapping->ring, counts, &count, err));
    for (size_t i = 0; i < count; i++)
        for (size_t t = 0; t < KEY_TABLE_COUNT && counts[i].version < version; t++) old += counts[i].keys[t];
    *old_out = old;
    return SUCCESS;
}

static struct result begin_again(struct job_run *run, int64_t wait_ms, const char *why)
{
    run->job.phase = REWRAP_BLOBS;
    run->job.cursor = (struct uuid){0};
    (void)job_wait(run, (unsigned)wait_ms, why);
    return SUCCESS;
}

/* Subjects' keys come last, under the epoch that came with the newest version. *old_out: keys that are left under older ones. */
static struct result rewrap_subjects(struct rewrapping *rewrapping, uint64_t *old_out, struct error *err)
{
    struct job_run *run = rewrapping->run;
    struct subject_rewrap subjects = {.epoch = 0};

    while (!subjects.is_done && job_go_on(run)) {
        const uint64_t before = subjects.changed;
        struct error why = {0};
        const struct result stepped = subject_rewrap_step(run->permit, run->registry->keyd, run->pg, &subjects, &why);
        run->job.done += subjects.changed - before;
        run->job.total += subjects.changed - before; /* they are not counted before */
        if (!stepped.ok && (why.kind != ERROR_UNAVAILABLE || pg_is_broken(run->pg)))
            return failure(err, why.kind, "%s", why.message);
        if (!stepped.ok) (void)job_wait(run, TRY_AGAIN_MS, why.message);
    }
    if (subjects.bad > 0) TRY(report_subjects(rewrapping, subjects.bad, err));
    return subject_rewrap_count(run->permit, run->pg, &subjects, old_out, err);
}

/* After a pass: begins another one, or tells sijil-keyd that no older version is used. */
static struct result conclude(struct rewrapping *rewrapping, struct error *err)
{
    struct job_run *run = rewrapping->run;
    const int64_t settled_ms = run->options->settle_ms == 0 ? SETTLE_MS : run->options->settle_ms;
    const int64_t age_ms = clock_monotonic_ms() - run->began_ms; /* by the clock of this machine only */
    uint64_t old = 0, subjects = 0;

    TRY(count_old(rewrapping, &old, err));
    if (old > run->job.found - rewrapping->found_before) return begin_again(run, PASS_AGAIN_MS, "rows that were in use");
    if (age_ms < settled_ms) return begin_again(run, settled_ms - age_ms, "keys that were wrapped before this began");
    if (rewrapping->ring[0] != '\0')
        return old > 0 ? SUCCESS : keyd_region_versions_unused(run->registry->keyd, rewrapping->ring, rewrapping->version, err);
    TRY(rewrap_subjects(rewrapping, &subjects, err));
    if (!job_go_on(run)) return begin_again(run, 0, ""); /* stopped: the next gateway begins a pass */
    if (old + subjects == 0) TRY(keyd_versions_unused(run->registry->keyd, rewrapping->version, err));
    return SUCCESS;
}

static struct result rewrap_ring(struct rewrapping *rewrapping, struct error *err)
{
    struct job_run *run = rewrapping->run;

    while (run->job.phase != JOB_DONE && job_go_on(run)) {
        TRY(rewrap_page(rewrapping, (enum key_table)run->job.phase, err));
        if (run->job.phase == JOB_DONE && job_go_on(run)) TRY(conclude(rewrapping, err));
    }
    return SUCCESS;
}

/* Its sijil-keyd says which version is its newest. False: stopped, or the region has none any more. */
static bool await_ring(struct job_run *run, struct region_keys *keys)
{
    while (!keys->is_reached || !keys->is_open) {
        if (!job_wait(run, TRY_AGAIN_MS, keys->problem)) return false;
        if (!registry_region_keys(run->registry, keys->id, keys)) return false;
    }
    return true;
}

/* The keys of a region that has a sijil-keyd of its own, which this gateway reaches. */
static struct result rewrap_region(struct job_run *run, struct region_keys *keys, struct error *err)
{
    struct rewrapping rewrapping = {.run = run, .ring = keys->id, .found_before = run->job.found};
    uint64_t old = 0;

    run->job.phase =
        REWRAP_BLOBS; /* also if it is stopped now: a gateway that resumes the job finds nothing to do in the rings before */
    run->job.cursor = (struct uuid){0};
    if (!await_ring(run, keys)) return SUCCESS;
    rewrapping.version = keys->place.key_version;
    TRY(count_old(&rewrapping, &old, err));
    run->job.total += old;
    return rewrap_ring(&rewrapping, err);
}

static bool is_elsewhere(const struct job_run *run, const struct region_keys *keys)
{
    const char *folder = run->registry->recorded.keyd_folder;

    return folder == NULL || folder[0] == '\0' || peers_find(&run->registry->elsewhere, keys->id) != NULL;
}

/* Each gets a job of its own, which a gateway that serves the region claims. It is begun once: a second one is a conflict while the first one lives. */
static struct result hand_over(const struct job_run *run, struct error *err)
{
    struct region_keys keys;

    for (size_t i = 0; registry_region_keys_at(run->registry, i, &keys); i++) {
        struct job job = {.id = uuid_random(), .kind = JOB_REWRAP};
        if (!is_elsewhere(run, &keys)) continue;
        (void)snprintf(job.region, sizeof job.region, "%s", keys.id);
        TRY(job_begin_scheduled(run->registry, &job, err));
    }
    return SUCCESS;
}

/* The job of one region. */
static struct result rewrap_one_region(struct job_run *run, struct error *err)
{
    struct region_keys keys;

    for (size_t i = 0; registry_region_keys_at(run->registry, i, &keys); i++)
        if (strcmp(keys.id, run->job.region) == 0) return rewrap_region(run, &keys, err);
    return failure(err, ERROR_INVALID, "region %.63s has no sijil-keyd of its own", run->job.region);
}

struct result rewrap_run(struct job_run *run, struct error *err)
{
    struct rewrapping rewrapping = {.run = run, .ring = ""};
    struct keyd_identity identity;
    struct region_keys keys;

    permit_require(run->permit, ACTION_JOB_RUN, &run->where);
    if (run->job.region[0] != '\0') return rewrap_one_region(run, err);
    TRY(keyd_identify(run->registry->keyd, &identity, err));
    rewrapping.version = identity.key_version;
    run->job.waits_for[0] = '\0';
    if (run->job.total == 0) TRY(hand_over(run, err)); /* at its begin */
    if (run->job.total == 0) TRY(count_old(&rewrapping, &run->job.total, err));
    TRY(rewrap_ring(&rewrapping, err));
    for (size_t i = 0; registry_region_keys_at(run->registry, i, &keys); i++)
        if (!is_elsewhere(run, &keys)) TRY(rewrap_region(run, &keys, err));
    return SUCCESS;
}
