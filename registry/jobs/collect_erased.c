/* Removes the content of deleted repositories, which were deleted alone or with their project (registry/jobs/erase.h). */
#include <stdio.h>
#include <string.h>

#include "registry/jobs/collect_priv.h"
#include "registry/jobs/erased_store.h"
#include "registry/manifest_use_store.h"
#include "registry/stored_manifest.h"

static struct removal removal_of(const struct collect_run *run, const struct collect_repository *repository,
                                 const struct collect_manifest *manifest)
{
    struct removal removal = {
        .where = {.kind = RESOURCE_REPOSITORY,
                  .organisation = run->project.organisation,
                  .project = run->project.id,
                  .repository = repository->id},
        .manifest = {.repository = repository->id, .project = run->project.id, .is_erased = true, .manifest = *manifest}};

    memcpy(removal.where.name, repository->name, sizeof removal.where.name);
    memcpy(removal.where.region, run->project.region, sizeof removal.where.region);
    (void)snprintf(removal.where.detail, sizeof removal.where.detail, "%s", manifest->digest);
    return removal;
}

static void count(struct collect_run *run, const struct collect_manifest *manifest)
{
    run->totals.manifests++;
    run->totals.bytes += manifest->size_bytes;
    run->totals.tags += manifest->tags;
}

static struct result remove_batch(struct collect_run *run, struct removal *removals, size_t size, struct error *err)
{
    bool removed[COLLECT_BATCH] = {false};

    TRY(collect_go_on(run, err));
    const struct result result = collect_remove(run, removals, size, removed, err);
    for (size_t i = 0; i < size; i++)
        if (removed[i]) count(run, &removals[i].manifest.manifest);
    return result;
}

/* A manifest is deleted with its tags under the log's lock. If it has more tags than the lock allows, they are deleted before
 * it, in small steps. No client can find them any more. */
static struct result untag_many(struct collect_run *run, const struct collect_manifest *manifest, struct error *err)
{
    if (manifest->tags <= MANIFEST_ALL_TAGS_MAX / COLLECT_BATCH) return SUCCESS;
    for (size_t removed = ERASED_PAGE; removed == ERASED_PAGE;) {
        TRY(collect_go_on(run, err));
        TRY(erased_tags_delete(run->pg, &run->repository.id, manifest->digest, &removed, err));
    }
    return SUCCESS;
}

/* Removes one page of manifests. A dry run counts them as removed, so blobs that only they need count as garbage. */
static struct result remove_page(struct collect_run *run, const struct pg_rows *rows, struct collect_manifest *last,
                                 struct error *err)
{
    struct removal removals[COLLECT_BATCH];
    size_t size = 0;

    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        erased_manifest_of(rows, i, last);
        if (run->job->job.is_dry_run) {
            count(run, last);
            if (run->gone.count < GONE_MAX) TRY(collect_note_gone(run, last->digest, err));
            else run->is_cut = true;
            continue;
        }
        TRY(untag_many(run, last, err));
        removals[size++] = removal_of(run, &run->repository, last);
        if (size == COLLECT_BATCH) TRY(remove_batch(run, removals, size, err));
        if (size == COLLECT_BATCH) size = 0;
    }
    return size == 0 ? SUCCESS : remove_batch(run, removals, size, err);
}

static struct result remove_manifests(struct collect_run *run, struct error *err)
{
    struct collect_manifest last = {.digest = ""};

    run->gone.from = run->gone.count;
    for (size_t found = ERASED_PAGE; found == ERASED_PAGE;) {
        OWNED(pg_rows) *rows = NULL;
        TRY(collect_go_on(run, err));
        TRY(erased_read_manifests(run->pg, &run->repository.id, last.digest, &rows, err));
        found = pg_rows_count(rows);
        TRY(remove_page(run, rows, &last, err));
    }
    return SUCCESS;
}

static struct result remove_links(struct collect_run *run, struct error *err)
{
    for (size_t removed = ERASED_PAGE; removed == ERASED_PAGE;) {
        TRY(collect_go_on(run, err));
        TRY(erased_links_delete(run->pg, &run->repository.id, &removed, err));
    }
    return SUCCESS;
}

static struct result empty_repository(struct collect_run *run, struct error *err)
{
    TRY(remove_manifests(run, err));
    if (run->job->job.is_dry_run) return SUCCESS;
    TRY(manifest_uses_clean(run->pg, &run->repository.id, err));
    TRY(remove_links(run, err));
    return erased_repository_remove(run->pg, &run->repository.id, err);
}

/* The deletion marked only the project, in one short statement. This marks its repositories. */
static struct result mark_all_deleted(struct collect_run *run, struct error *err)
{
    if (!run->project.is_deleted || run->job->job.is_dry_run) return SUCCESS;
    for (size_t marked = ERASED_PAGE; marked == ERASED_PAGE;) {
        TRY(collect_go_on(run, err));
        TRY(erased_mark_repositories(run->pg, &run->project.id, &marked, err));
    }
    return SUCCESS;
}

struct result collect_erased(struct collect_run *run, struct error *err)
{
    struct uuid last = {{0}};
    bool found = true;

    TRY(mark_all_deleted(run, err));
    for (;;) {
        TRY(collect_go_on(run, err));
        TRY(erased_next_repository(run->pg, &run->project, &last, &run->repository, &found, err));
        if (!found) return SUCCESS;
        last = run->repository.id;
        TRY(empty_repository(run, err));
    }
}

struct result collect_erased_project(struct collect_run *run, struct error *err)
{
    struct removal removal = {.is_end = true,
                              .where = {.kind = RESOURCE_PROJECT,
                                        .organisation = run->project.organisation,
                                        .project = run->project.id,
                                        .detail = "keys of manifests"}};
    bool is_empty = false, removed = false;

    if (!run->project.is_deleted || run->job->job.is_dry_run) return SUCCESS;
    TRY(erased_project_is_empty(run->pg, &run->project.id, &is_empty, err));
    if (!is_empty) return SUCCESS;
    memcpy(removal.where.name, run->project.name, sizeof removal.where.name);
    memcpy(removal.where.region, run->project.region, sizeof removal.where.region);
    TRY(collect_go_on(run, err));
    return collect_remove(run, &removal, 1, &removed, err);
}
