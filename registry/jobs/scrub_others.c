/* The other parts of a scrub: manifests in PostgreSQL, and objects that no row or no trailer names. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "registry/jobs/job_priv.h"
#include "registry/jobs/scrub_store.h"
#include "registry/metrics.h"
#include "registry/seal_priv.h"

enum {
    PAGE = 8, /* manifests, of at most 4 MiB each */
    TRY_AGAIN_MS = 2000,
    MANIFEST_BYTES_MAX = 4 << 20,
    STRAY_AGE_MS = 3600000, /* younger objects may not have their row yet */
};

/* ---- Manifests ---- */

static struct result check_manifest(const struct job_run *run, const struct scrub_manifest *manifest, struct error *err)
{
    const struct sealing sealing = {.where = &manifest->where, .digest = manifest->where.detail, .key = &manifest->key};
    struct buffer OWNED_BUFFER plain = BUFFER(MANIFEST_BYTES_MAX);
    struct digest digest;

    TRY(digest_parse(bytes_of_text(manifest->where.detail), &digest, err));
    TRY(manifest_unseal(run->registry, &sealing, manifest->sealed, &plain, err));
    const struct digest found = digest_of(digest.algorithm, buffer_bytes(&plain));
    if (plain.length != manifest->size_bytes)
        return failure(err, ERROR_CORRUPT, "size: %zu bytes are sealed, %zu are recorded", plain.length, manifest->size_bytes);
    if (!digest_equal(&found, &digest))
        return failure(err, ERROR_CORRUPT, "digest: the content has another one than is recorded");
    return SUCCESS;
}

static struct result report_manifest(struct job_run *run, const struct scrub_manifest *manifest, const struct error *why,
                                     struct error *err)
{
    struct job_finding finding = {.kind = FINDING_MANIFEST};
    char id[UUID_TEXT_SIZE];

    uuid_format(&manifest->where.repository, id);
    (void)snprintf(finding.subject, sizeof finding.subject, "%s@%s", id, manifest->where.detail);
    (void)snprintf(finding.name, sizeof finding.name, "%s", manifest->where.name);
    (void)snprintf(finding.digest, sizeof finding.digest, "%.*s", DIGEST_TEXT_SIZE - 1, manifest->where.detail);
    (void)snprintf(finding.detail, sizeof finding.detail, "%s", why->message);
    return job_report(run, &finding, &manifest->where, NULL, err);
}

static bool is_damaged_row(enum error_kind kind)
{
    return kind == ERROR_CORRUPT || kind == ERROR_INVALID;
}

static struct result scrub_manifest(struct job_run *run, const struct scrub_manifest *manifest, struct error *err)
{
    struct error why = {0};

    while (!check_manifest(run, manifest, &why).ok) {
        if (is_damaged_row(why.kind)) {
            TRY(report_manifest(run, manifest, &why, err));
            break;
        }
        if (!job_wait(run, TRY_AGAIN_MS, why.message)) return SUCCESS;
    }
    run->job.cursor = manifest->where.repository;
    (void)snprintf(run->job.cursor_text, sizeof run->job.cursor_text, "%.*s", DIGEST_TEXT_SIZE - 1, manifest->where.detail);
    run->job.done++;
    run->job.done_bytes += manifest->size_bytes;
    metric_add(&registry_metrics_rows[METRIC_SCRUBBED], 1);
    metric_add(&registry_metrics_rows[METRIC_SCRUBBED_BYTES], (int64_t)manifest->size_bytes);
    (void)job_pace(run, manifest->sealed.length); /* the loop calls job_go_on() itself */
    return SUCCESS;
}

static struct result scrub_manifest_page(struct job_run *run, struct error *err)
{
    const struct scrub_page page = {
        .region = run->job.region, .after = run->job.cursor, .after_digest = run->job.cursor_text, .limit = PAGE};
    struct scrub_manifest manifests[PAGE];
    OWNED(pg_rows) *rows = NULL;

    TRY(scrub_manifests_page(run->pg, &page, manifests, &rows, err));
    const size_t count = pg_rows_count(rows);
    for (size_t i = 0; i < count && job_go_on(run); i++) TRY(scrub_manifest(run, &manifests[i], err));
    if (count > 0) return SUCCESS;
    run->job.phase = SCRUB_OBJECTS;
    run->job.cursor = (struct uuid){0};
    run->job.cursor_text[0] = '\0';
    return SUCCESS;
}

struct result scrub_manifests(struct job_run *run, struct error *err)
{
    permit_require(run->permit, ACTION_JOB_RUN, &run->where);
    while (run->job.phase == SCRUB_MANIFESTS && job_go_on(run)) TRY(scrub_manifest_page(run, err));
    return SUCCESS;
}

/* ---- Objects that no row, or no trailer names ---- */

struct search {
    struct job_run *run;
    struct blob_store *blobs;
    int64_t before_ms; /* older than this */
    size_t count;
    struct driver_entry entries[SCRUB_BATCH];
    struct scrub_owner owners[SCRUB_BATCH];
};

/* `blob` is the closed blob with the same id, or NULL. */
static struct result report_stray(struct search *search, const struct driver_entry *entry, const struct scrub_blob *blob,
                                  struct error *err)
{
    struct job_finding finding = {.kind = FINDING_STRAY};
    struct resource where = search->run->where;
    char id[UUID_TEXT_SIZE];
    bool there = false;

    TRY(blob_has(search->blobs, entry, &there, err));
    if (!there) return SUCCESS; /* it was removed since the listing, after its row */
    uuid_format(&entry->blob, id);
    if (entry->is_extent) (void)snprintf(finding.subject, sizeof finding.subject, "%s.e%u", id, entry->part);
    else (void)snprintf(finding.subject, sizeof finding.subject, "%s.%s", id, entry->name);
    if (blob != NULL) {
        (void)snprintf(finding.name, sizeof finding.name, "%s", blob->where.name);
        (void)snprintf(finding.digest, sizeof finding.digest, "%.*s", DIGEST_TEXT_SIZE - 1, blob->where.detail);
    }
    (void)snprintf(finding.detail, sizeof finding.detail, "%llu bytes that no row%s names", (unsigned long long)entry->size_bytes,
                   blob == NULL ? "" : " and no trailer of the closed blob");
    (void)snprintf(where.detail, sizeof where.detail, "%.*s", RESOURCE_DETAIL_MAX, finding.subject);
    return job_report(search->run, &finding, &where, NULL, err);
}

/* If the blob can't be opened, that is another finding, and it is unknown which objects belong to it: *reader_out stays NULL. */
static struct result open_closed(struct search *search, const struct scrub_blob *blob, struct blob_reader **reader_out,
                                 struct error *err)
{
    struct error why = {0};

    for (;;) {
        OWNED(secret) *key = NULL;
        why = (struct error){0};
        if (scrub_unwrap(search->run, blob, &key, &why).ok && scrub_open(search->run, blob, key, reader_out, &why).ok)
            return SUCCESS;
        if (is_damaged_row(why.kind) || why.kind == ERROR_NOT_FOUND) return SUCCESS;
        if (!job_wait(search->run, TRY_AGAIN_MS, why.message)) return failure(err, ERROR_CONFLICT, "the search was stopped");
    }
}

/* Compares all extents of the batch with the blob id of entry `first` against the sealed trailer of that blob. */
static struct result check_extents(struct search *search, size_t first, struct error *err)
{
    const struct uuid id = search->entries[first].blob;
    OWNED(blob_reader) *reader = NULL;
    struct scrub_blob blob;
    bool found = false;

    TRY(scrub_blob_find(search->run->pg, search->run->job.region, &id, &blob, &found, err));
    if (found) TRY(open_closed(search, &blob, &reader, err));
    for (size_t i = first; i < search->count; i++) {
        const struct driver_entry *entry = &search->entries[i];
        if (!search->owners[i].is_beside || !uuid_equal(&entry->blob, &id)) continue;
        search->owners[i].is_beside = false;
        if (reader != NULL && !blob_reader_names(reader, entry)) TRY(report_stray(search, entry, &blob, err));
    }
    return SUCCESS;
}

static struct result ask(struct search *search, struct error *err)
{
    TRY(scrub_owners(search->run->pg, search->entries, search->count, search->owners, err));
    for (size_t i = 0; i < search->count; i++) {
        if (!search->owners[i].is_known) TRY(report_stray(search, &search->entries[i], NULL, err));
        if (search->owners[i].is_beside) TRY(check_extents(search, i, err));
    }
    search->count = 0;
    return SUCCESS;
}

static struct result visit(void *context, const struct driver_entry *entry, struct error *err)
{
    struct search *search = context;

    if (!job_go_on(search->run)) return failure(err, ERROR_CONFLICT, "the search was stopped");
    if (entry->modified_ms > search->before_ms) return SUCCESS;
    search->entries[search->count++] = *entry;
    return search->count < SCRUB_BATCH ? SUCCESS : ask(search, err);
}

/* A listing can't continue in the middle. After a restart it begins again; a finding is reported only once. */
static struct result list(struct search *search, struct error *err)
{
    struct job *job = &search->run->job;

    TRY(registry_blobs(search->run->registry, job->region, &search->blobs, err));
    struct result listed = blob_list(search->blobs, visit, search, err);
    if (listed.ok && search->count > 0) listed = ask(search, err);
    if (!job_go_on(search->run)) return SUCCESS;
    TRY(listed);
    job->phase = JOB_DONE;
    return SUCCESS;
}

struct result scrub_others(struct job_run *run, struct error *err)
{
    struct search *search = memory_zeroed(1, sizeof *search);

    permit_require(run->permit, ACTION_JOB_RUN, &run->where);
    if (search == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a listing");
    search->run = run;
    search->before_ms = clock_wall_ms() - STRAY_AGE_MS;
    const struct result listed = list(search, err);
    free(search);
    return listed;
}
