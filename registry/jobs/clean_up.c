#include <stdio.h>
#include <string.h>

#include "audit/job_permit.h"
#include "base/clock.h"
#include "base/memory.h"
#include "registry/jobs/clean_up.h"
#include "registry/maintenance.h"
#include "registry/registry_priv.h"
#include "registry/upload/upload_store.h"
#include "registry/upload_table.h"

#define ROUND_MAX   100    /* sessions or objects in one round: a few seconds of work */
#define PATIENCE_MS 5000   /* in a region where a removal fails; after that the other regions get their turn */
#define IDLE_MAX_MS 600000 /* a client that paused for ten minutes resumes from its checkpoint */

struct expire_change {
    struct change change;
    struct resource where;
    struct uuid upload;
    const struct session_limits *limits;
};

static struct result run_expire(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct expire_change *expire = (const struct expire_change *)(const void *)change; /* its first member */

    permit_require(permit, ACTION_UPLOAD_REAP, &expire->where);
    return upload_row_expire(pg, &expire->upload, expire->limits, err);
}

static struct result expire(struct registry *registry, const struct expired_upload *expired, bool *ended_out, struct error *err)
{
    struct action_pair pair = {.action = ACTION_UPLOAD_REAP, .resource = {.kind = RESOURCE_REPOSITORY}};
    struct resource *where = &pair.resource;
    struct job_recorder recorder;
    OWNED(permit) *permit = NULL;

    where->organisation = expired->organisation;
    where->project = expired->project;
    where->repository = expired->repository;
    memcpy(where->name, expired->name, sizeof where->name);
    memcpy(where->region, expired->region, sizeof where->region);
    uuid_format(&expired->upload, where->detail);
    TRY(permit_for_job(registry->sequencer, &pair, &permit, err));
    struct expire_change change = {.change = {.run = run_expire, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                   .where = *where,
                                   .upload = expired->upload,
                                   .limits = &registry->uploads_open};
    job_recorder_init(&recorder, registry->sequencer, permit);
    const struct result recorded = recorder.recorder.record(
        &recorder.recorder, OUTCOME_COMPLETED, expired->makes_room ? "idle, made room" : "expired", &change.change, err);
    *ended_out = recorded.ok;
    if (!recorded.ok && err->kind == ERROR_NOT_FOUND) return SUCCESS; /* it made progress, or another gateway ended it */
    return recorded; /* cppcheck-suppress returnDanglingLifetime ; a result is a truth value, and keeps no address */
}

static struct result expire_all(struct registry *registry, struct pg *pg, size_t *count_out, struct error *err)
{
    struct expired_upload *expired = memory_zeroed(ROUND_MAX, sizeof *expired);
    size_t count = 0, ended = 0;

    if (expired == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for expired uploads");
    struct result result = upload_rows_expired(pg, &registry->uploads_open, expired, ROUND_MAX, &count, err);
    for (size_t i = 0; i < count && result.ok; i++) {
        bool is_ended = false;
        result = expire(registry, &expired[i], &is_ended, err);
        ended += is_ended;
    }
    free(expired);
    if (result.ok) *count_out = ended;
    return result;
}

/* Lists the next objects, without those that could not be removed lately. If no others are left, lists those again. */
static struct result list_next(struct registry_store *store, struct pg *pg, struct abandoned_object *objects_out,
                               size_t *count_out, struct error *err)
{
    struct abandoned_query query = {.region = store->id, .skipped = store->unremovable, .capacity = ROUND_MAX};

    TRY(abandoned_list(pg, &query, objects_out, count_out, err));
    if (*count_out > 0 || store->unremovable == 0) return SUCCESS;
    query.skipped = store->unremovable = 0;
    return abandoned_list(pg, &query, objects_out, count_out, err);
}

/* If a store is away, each removal waits for half a minute. After PATIENCE_MS the other regions go on. */
static struct result sweep_region(struct registry *registry, struct registry_store *store, struct pg *pg, size_t *removed,
                                  struct error *err)
{
    const int64_t until_ms = clock_monotonic_ms() + PATIENCE_MS;
    struct abandoned_object objects[ROUND_MAX];
    size_t count = 0;

    TRY(list_next(store, pg, objects, &count, err));
    for (size_t i = 0; i < count; i++) {
        const bool is_gone = upload_sweep(registry, pg, &objects[i]);
        *removed += is_gone;
        store->unremovable += !is_gone;
        if (!is_gone && clock_monotonic_ms() > until_ms) break;
    }
    return SUCCESS;
}

/* Goes through the regions one by one, so that no region delays the others for long. */
static struct result sweep_all(struct registry *registry, struct pg *pg, size_t *count_out, struct error *err)
{
    size_t removed = 0;

    for (size_t i = 0; i < registry->region_count; i++) TRY(sweep_region(registry, &registry->regions[i], pg, &removed, err));
    *count_out = removed;
    return SUCCESS;
}

static struct result clean_up(struct registry *registry, struct pg *pg, size_t *count_out, struct error *err)
{
    size_t expired = 0, removed = 0;
    bool counted = false;

    TRY(expire_all(registry, pg, &expired, err));
    TRY(sweep_all(registry, pg, &removed, err));
    TRY(quota_count_pending(pg, &counted, err));
    *count_out = expired + removed + counted;
    return SUCCESS;
}

struct result registry_end_expired(struct registry *registry, struct pg *pg, size_t *count_out, struct error *err)
{
    return expire_all(registry, pg, count_out, err);
}

struct result registry_clean_up(struct registry *registry, struct pg *pg, size_t *count_out, struct error *err)
{
    struct error unlocking = {0};
    size_t count = 0;
    bool is_ours = false;

    upload_table_expire(registry->uploads, clock_monotonic_ms() - IDLE_MAX_MS);
    TRY(clean_up_lock(pg, &is_ours, err));
    if (is_ours) {
        const struct result result = clean_up(registry, pg, &count, err);
        const bool is_unlocked = clean_up_unlock(pg, &unlocking).ok;
        if (!result.ok) return result;
        if (!is_unlocked) return failure(err, unlocking.kind, "%s", unlocking.message);
    }
    *count_out = count;
    return SUCCESS;
}

struct result registry_clean_up_for(struct registry *registry, struct pg *pg, const struct clean_up_options *options,
                                    bool *has_more_out, struct error *err)
{
    const int64_t until_ms = clock_monotonic_ms() + options->lasts_ms;
    size_t removed = 1;

    do {
        if (options->is_stopping(options->context)) break;
        TRY(registry_clean_up(registry, pg, &removed, err));
    } while (removed > 0 && clock_monotonic_ms() < until_ms);
    *has_more_out = removed > 0;
    return SUCCESS;
}
