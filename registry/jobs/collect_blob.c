/* Removes blobs that no manifest needs and whose lease is over. */
#include <stdio.h>
#include <string.h>

#include "registry/jobs/collect_priv.h"

static struct removal removal_of(const struct collect_run *run, const struct collect_blob *blob)
{
    struct removal removal = {
        .where = {.kind = RESOURCE_PROJECT, .organisation = run->project.organisation, .project = run->project.id},
        .blob = *blob};

    memcpy(removal.where.name, run->project.name, sizeof removal.where.name);
    memcpy(removal.where.region, blob->region, sizeof removal.where.region);
    (void)snprintf(removal.where.detail, sizeof removal.where.detail, "%s", blob->digest);
    return removal;
}

static void count(struct collect_run *run, const struct collect_blob *blob)
{
    run->totals.blobs++;
    run->totals.bytes += blob->size_bytes;
}

static struct result remove_batch(struct collect_run *run, struct removal *removals, size_t size, struct error *err)
{
    bool removed[COLLECT_BATCH] = {false};

    TRY(collect_go_on(run, err));
    const struct result result = collect_remove(run, removals, size, removed, err);
    for (size_t i = 0; i < size; i++)
        if (removed[i]) count(run, &removals[i].blob);
    return result;
}

/* Removes the garbage of one page of blobs; a dry run only counts it. */
static struct result collect_page(struct collect_run *run, const struct pg_rows *rows, struct collect_blob *last,
                                  struct error *err)
{
    struct removal removals[COLLECT_BATCH];
    size_t size = 0;

    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        collect_blob_of(rows, i, last);
        run->totals.looked_at++;
        if (!last->is_garbage) continue;
        if (run->job->job.is_dry_run) {
            count(run, last);
            continue;
        }
        removals[size++] = removal_of(run, last);
        if (size == COLLECT_BATCH) TRY(remove_batch(run, removals, size, err));
        if (size == COLLECT_BATCH) size = 0;
    }
    return size == 0 ? SUCCESS : remove_batch(run, removals, size, err);
}

struct result collect_blobs(struct collect_run *run, struct error *err)
{
    const struct collect_gone gone = collect_gone_of_project(run);
    struct collect_blob last = {.digest = ""};
    const struct collect_blob_query query = {.project = &run->project.id, .last = &last, .gone = &gone, .limit = COLLECT_PAGE};

    for (;;) {
        OWNED(pg_rows) *rows = NULL;
        TRY(collect_go_on(run, err));
        TRY(collect_read_blobs(run->pg, &query, &rows, err));
        if (pg_rows_count(rows) == 0) return SUCCESS;
        TRY(collect_page(run, rows, &last, err));
    }
}
