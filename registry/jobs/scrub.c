/* A scrub of one region: blobs, then manifests, then objects without a row (docs/scrubbing.md). */
#include <stdio.h>
#include <string.h>

#include "crypto/keyd_client.h"
#include "registry/jobs/job_priv.h"
#include "registry/jobs/scrub_store.h"
#include "registry/metrics.h"
#include "registry/stored_blob_priv.h"

enum {
    PAGE = 32, /* blobs that are read from the table together */
    TRIES = 3, /* until an unreadable blob becomes a finding */
    TRY_AGAIN_MS = 2000,
    OBJECT_COST = 65536, /* bytes that each object counts for in addition: sijil-keyd limits the keys of a project in a
                          * second, and readers share this limit with the scrub */
    IN_A_ROW_MAX = 8,    /* consecutive findings; more mean that the region or the key ring is wrong, not the blobs */
};

/* The result for one blob. */
enum answer { IS_SOUND, IS_FOUND, IS_GONE, IS_STOPPED };

struct checking {
    struct job_run *run;
    struct scrub_blob *blob;    /* as in the page; read again before its key is unwrapped */
    struct job_finding finding; /* for IS_FOUND */
};

static void find(struct checking *checking, enum finding_kind kind, const struct error *err)
{
    checking->finding.kind = kind;
    (void)snprintf(checking->finding.detail, sizeof checking->finding.detail, "%s", err->message);
}

/* ---- One blob ---- */

static bool progressed(void *context, uint64_t done_bytes, uint64_t length_bytes)
{
    struct job_run *run = context;
    const uint64_t fresh = done_bytes - run->job.cursor_bytes;

    (void)length_bytes;
    run->job.cursor_bytes = done_bytes;
    run->job.done_bytes += fresh;
    metric_add(&registry_metrics_rows[METRIC_SCRUBBED_BYTES], (int64_t)fresh);
    return job_pace(run, fresh);
}

static struct result open_blob(struct job_run *run, const struct scrub_blob *blob, const struct secret *key, bool again,
                               struct blob_reader **reader_out, struct error *err)
{
    struct blob_identity identity = {.blob = blob->row.key.id, .project = blob->where.project};
    struct blob_store *blobs = NULL;

    (void)snprintf(identity.region, sizeof identity.region, "%s", run->job.region);
    TRY(registry_blobs(run->registry, run->job.region, &blobs, err));
    if (!job_pace(run, OBJECT_COST)) return failure(err, ERROR_UNAVAILABLE, "the check was stopped");
    return (again ? blob_reader_open_again : blob_reader_open)(blobs, &identity, &blob->row.content, key, reader_out, err);
}

struct result scrub_open(struct job_run *run, const struct scrub_blob *blob, const struct secret *key,
                         struct blob_reader **reader_out, struct error *err)
{
    return open_blob(run, blob, key, false, reader_out, err);
}

static struct result verify(struct checking *checking, const struct secret *key, bool again, struct error *err)
{
    struct job_run *run = checking->run;
    const struct blob_verify_options options = {
        .with_digest = run->job.with_digest, .from_bytes = run->job.cursor_bytes, .progress = progressed, .context = run};
    OWNED(blob_reader) *reader = NULL;

    TRY(open_blob(run, checking->blob, key, again, &reader, err));
    return blob_verify(reader, &options, err);
}

struct result scrub_unwrap(const struct job_run *run, const struct scrub_blob *blob, struct secret **key_out, struct error *err)
{
    const struct key_scope scope = registry_key_scope(&blob->where);
    const struct key_binding binding = key_binding_of(&scope, &blob->row.key.id, blob->row.key.commitment);

    return keyd_unwrap(run->registry->keyd, &binding, &blob->row.key.wrapped, key_out, err);
}

/* Reads the row again. Hours may have passed since the page was read, also because sijil-keyd was away. A re-wrap may have
 * replaced the wrapped key since, and the old version may be destroyed. */
static struct result read_row_again(struct checking *checking, bool *there_out, struct error *err)
{
    const struct job_run *run = checking->run;
    struct scrub_blob now;
    bool there = false;

    TRY(scrub_blob_find(run->pg, run->job.region, &checking->blob->row.key.id, &now, &there, err));
    if (there) *checking->blob = now;
    *there_out = there;
    return SUCCESS;
}

/* IS_STOPPED: sijil-keyd can't unwrap now. */
static enum answer unwrap(struct checking *checking, struct secret **key_out, struct error *why)
{
    if (scrub_unwrap(checking->run, checking->blob, key_out, why).ok) return IS_SOUND;
    if (why->kind != ERROR_CORRUPT && why->kind != ERROR_INVALID) return IS_STOPPED;
    find(checking, FINDING_KEY, why);
    return IS_FOUND;
}

/* Waits for sijil-keyd, because no blob can be verified without it. *key_out is set if *answer_out is IS_SOUND. */
static struct result get_key(struct checking *checking, struct secret **key_out, enum answer *answer_out, struct error *err)
{
    for (;;) {
        struct error why = {0};
        bool there = false;
        TRY(read_row_again(checking, &there, err));
        const enum answer answer = there ? unwrap(checking, key_out, &why) : IS_GONE;
        if (answer == IS_STOPPED && job_wait(checking->run, TRY_AGAIN_MS, why.message)) continue;
        *answer_out = answer;
        return SUCCESS;
    }
}

/* With a digest, the content is hashed from its start again; else verified bytes are not read again. */
static void begin_again(struct job *job)
{
    if (!job->with_digest) return;
    job->done_bytes -= job->cursor_bytes < job->done_bytes ? job->cursor_bytes : job->done_bytes;
    job->cursor_bytes = 0;
}

static bool region_answers(const struct job_run *run)
{
    struct blob_store *blobs = NULL;
    struct error ignored = {0};

    return registry_blobs(run->registry, run->job.region, &blobs, &ignored).ok && blob_store_check(blobs, &ignored).ok;
}

static enum finding_kind finding_of(enum error_kind kind)
{
    if (kind == ERROR_CORRUPT) return FINDING_DAMAGED;
    return kind == ERROR_NOT_FOUND ? FINDING_MISSING : FINDING_UNREADABLE;
}

static enum answer read_blob(struct checking *checking, const struct secret *key)
{
    struct job_run *run = checking->run;
    struct error err = {0};

    for (unsigned tries = 1;; tries++) {
        begin_again(&run->job);
        if (verify(checking, key, tries > 1, &err).ok) return IS_SOUND;
        if (!job_go_on(run)) return IS_STOPPED;
        const bool is_lost = err.kind == ERROR_CORRUPT || err.kind == ERROR_NOT_FOUND;
        if (is_lost && tries == 1) continue; /* the second read comes from the disk, not from the page cache */
        if (tries >= (is_lost ? 2 : TRIES) && region_answers(run)) {
            find(checking, finding_of(err.kind), &err);
            return IS_FOUND;
        }
        if (!job_wait(run, TRY_AGAIN_MS, err.message)) return IS_STOPPED;
    }
}

static struct result check(struct checking *checking, enum answer *answer_out, struct error *err)
{
    OWNED(secret) *key = NULL;
    enum answer got = IS_STOPPED;

    TRY(get_key(checking, &key, &got, err));
    *answer_out = got == IS_SOUND ? read_blob(checking, key) : got;
    return SUCCESS;
}

/* ---- What follows from the result ---- */

/* The blob is sound, so the mark was wrong: for example, a read met bad memory, or the region was a wrong folder. */
static struct result unmark(struct job_run *run, const struct scrub_blob *blob, struct error *err)
{
    bool there = false;

    TRY(scrub_blob_is_there(run->pg, blob, &there, err));
    return there ? stored_blob_unmark(run->registry, &blob->where, &blob->row.key.id, err) : SUCCESS;
}

/* If the row does not exist any more, the blob was collected with its bytes, which is no finding. */
static struct result report(struct checking *checking, struct error *err)
{
    struct job_run *run = checking->run;
    const struct scrub_blob *blob = checking->blob;
    struct job_finding *finding = &checking->finding;
    const bool is_lost = finding->kind == FINDING_DAMAGED || finding->kind == FINDING_MISSING;
    bool there = false;

    TRY(scrub_blob_is_there(run->pg, blob, &there, err));
    if (!there) return SUCCESS;
    uuid_format(&blob->row.key.id, finding->subject);
    (void)snprintf(finding->name, sizeof finding->name, "%s", blob->where.name);
    (void)snprintf(finding->digest, sizeof finding->digest, "%.*s", DIGEST_TEXT_SIZE - 1, blob->where.detail);
    TRY(job_report(run, finding, &blob->where, is_lost ? &blob->row.key.id : NULL, err));
    if (is_lost) metric_add(&registry_metrics_rows[METRIC_DAMAGE_SCRUB], 1);
    if (++run->in_a_row < IN_A_ROW_MAX) return SUCCESS;
    return failure(err, ERROR_CORRUPT,
                   "%d blobs in a row can't be read: is the right store mounted, and the right key ring served? Mend that "
                   "and scrub again: sound blobs lose their mark",
                   IN_A_ROW_MAX);
}

static struct result settle(struct checking *checking, enum answer answer, struct error *err)
{
    struct job_run *run = checking->run;
    struct job *job = &run->job;

    if (answer == IS_FOUND) TRY(report(checking, err));
    if (answer == IS_SOUND) run->in_a_row = 0;
    if (answer == IS_SOUND && checking->blob->row.is_damaged) TRY(unmark(run, checking->blob, err));
    job->done_bytes += checking->blob->row.content.length - job->cursor_bytes; /* also the bytes that could not be read */
    job->cursor_bytes = 0;
    job->cursor_text[0] = '\0';
    job->cursor = checking->blob->row.key.id;
    job->done++;
    metric_add(&registry_metrics_rows[METRIC_SCRUBBED], 1);
    return SUCCESS;
}

/* ---- All blobs ---- */

static struct result scrub_one(struct job_run *run, struct scrub_blob *blob, struct error *err)
{
    struct checking checking = {.run = run, .blob = blob};
    enum answer answer = IS_STOPPED;
    char id[UUID_TEXT_SIZE];

    uuid_format(&blob->row.key.id, id);
    if (strcmp(run->job.cursor_text, id) != 0) run->job.cursor_bytes = 0; /* of another blob, which no longer exists */
    (void)snprintf(run->job.cursor_text, sizeof run->job.cursor_text, "%s", id);
    TRY(check(&checking, &answer, err));
    return answer == IS_STOPPED ? SUCCESS : settle(&checking, answer, err);
}

static struct result scrub_page(struct job_run *run, struct error *err)
{
    const struct scrub_page page = {.region = run->job.region, .after = run->job.cursor, .limit = PAGE};
    struct scrub_blob blobs[PAGE];
    size_t count = 0;

    TRY(scrub_blobs(run->pg, &page, blobs, &count, err));
    for (size_t i = 0; i < count && job_go_on(run); i++) TRY(scrub_one(run, &blobs[i], err));
    if (count > 0) return SUCCESS;
    run->job.phase = SCRUB_MANIFESTS;
    run->job.cursor = (struct uuid){0};
    run->job.cursor_text[0] = '\0';
    return SUCCESS;
}

struct result scrub_run(struct job_run *run, struct error *err)
{
    permit_require(run->permit, ACTION_JOB_RUN, &run->where);
    TRY(registry_check_region(run->registry, run->job.region, run->pg, err));
    run->job.waits_for[0] = '\0';
    if (run->job.phase == SCRUB_BLOBS && run->job.done == 0) TRY(scrub_total(run->pg, run->job.region, &run->job, err));
    while (run->job.phase == SCRUB_BLOBS && job_go_on(run)) TRY(scrub_page(run, err));
    if (run->job.phase == SCRUB_MANIFESTS) TRY(scrub_manifests(run, err));
    if (run->job.phase == SCRUB_OBJECTS) TRY(scrub_others(run, err));
    return SUCCESS;
}

/* ---- Scheduled scrubs ---- */

static struct result begin_if_due(struct registry *registry, struct pg *pg, const char *region,
                                  const struct scrub_schedule *schedule, struct error *err)
{
    struct job job = {.kind = JOB_SCRUB, .id = uuid_random(), .rate_bytes = schedule->rate_bytes};
    bool is_due = false;

    TRY(job_scrub_is_due(pg, region, schedule->interval_s, &is_due, err));
    if (!is_due) return SUCCESS;
    (void)snprintf(job.region, sizeof job.region, "%s", region);
    return job_begin_scheduled(registry, &job, err);
}

struct result job_begin_scrubs_if_due(struct registry *registry, struct pg *pg, const struct scrub_schedule *schedule,
                                      struct error *err)
{
    for (size_t i = 0; i < registry->region_count; i++) TRY(begin_if_due(registry, pg, registry->regions[i].id, schedule, err));
    return SUCCESS;
}
