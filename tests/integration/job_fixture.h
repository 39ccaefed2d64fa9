/*
 * tests/integration/job_fixture.h -- begins, runs and reads jobs of the registry.
 */
#pragma once

#include "registry/jobs/maintenance.h"
#include "tests/integration/registry_fixture.h"

#include "registry/jobs/job.h"

/* The only value of a query about the blob with this digest. */
static inline const char *ask_of(const char *what, const char *digest)
{
    static char text[1024];

    (void)snprintf(text, sizeof text, "SELECT %s FROM blob WHERE digest = '%s'", what, digest);
    return ask(text);
}

/* ---- Jobs ---- */

#define KEPT 5 /* ended jobs of a kind */

struct stopper {
    unsigned asked, after; /* 0: never */
};

static inline bool is_stopping(void *context)
{
    struct stopper *stopper = context;

    return stopper != NULL && stopper->after > 0 && ++stopper->asked > stopper->after;
}

static inline struct uuid begin(const struct job *wanted)
{
    struct resource where = {.kind = RESOURCE_SYSTEM};
    struct job job = *wanted;
    struct job_begin change;

    job.id = uuid_random();
    (void)snprintf(where.region, sizeof where.region, "%s", job.region);
    job_begin_prepare(&where, &job, &change);
    MUST(fixture_change(change.action, &where, &change.change, &err));
    return job.id;
}

static inline void stop(const struct uuid *id)
{
    const struct resource where = {.kind = RESOURCE_SYSTEM};
    struct job_stop change;

    job_stop_prepare(&where, id, KEPT, &change);
    MUST(fixture_change(ACTION_JOB_STOP, &where, &change.change, &err));
}

static inline struct uuid begin_scrub(bool with_digest)
{
    struct job job = {.kind = JOB_SCRUB, .with_digest = with_digest, .rate_bytes = 1 << 30};

    (void)snprintf(job.region, sizeof job.region, "%s", TEST_REGION);
    return begin(&job);
}

static inline bool work_as(struct registry *registry, enum job_kind kind, struct stopper *stopper)
{
    const struct job_options options = {
        .kind = kind, .instance = "gw1", .is_stopping = is_stopping, .context = stopper, .settle_ms = 1, .kept = KEPT};
    bool worked = false;

    MUST(registry_work(registry, fixture.stack->pg, &options, &worked, &err));
    return worked;
}

static inline void work(enum job_kind kind)
{
    assert_true(work_as(fixture.registry, kind, NULL));
}

static inline struct job look(const struct uuid *id)
{
    const struct resource where = {.kind = RESOURCE_SYSTEM};
    OWNED(permit) *permit = stack_permit(fixture.stack, ACTION_JOB_READ, &where);
    struct job job;

    MUST(job_find(permit, fixture.stack->pg, id, &job, &err));
    return job;
}

/* All findings of a job; the caller frees them. */
static inline struct job_finding *findings_of(const struct uuid *id, size_t *count)
{
    const struct resource where = {.kind = RESOURCE_SYSTEM};
    OWNED(permit) *permit = stack_permit(fixture.stack, ACTION_JOB_READ, &where);
    const struct job_page page = {.job = id, .limit = 100};
    struct job_finding *findings = NULL;

    MUST(job_findings(permit, fixture.stack->pg, &page, &findings, count, &err));
    return findings;
}

/* Changes a bit of the second record of a blob's file. */
static inline void flip_record(const char *path)
{
    fixture_flip(path, 4096 + 65536 + 100);
}
