/*
 * registry/quota.h -- quotas of projects: bytes, open upload sessions, recorded requests a minute, budgets of runs.
 *
 * Rule: the statement that adds or removes bytes also counts them, so the count is exact with any number of gateways.
 * A project without a quota is not counted. docs/quotas.md.
 */
#pragma once

#include "registry/registry.h"

#define QUOTA_NONE            (-1)   /* not limited; for sessions: the limit of all projects */
#define QUOTA_SESSIONS_MAX    100000 /* as in migrations/0011_quota_rules.sql */
#define QUOTA_EVENTS_MAX      1000000000
#define QUOTA_SECONDS_MAX     INT64_C(1000000000000000)
#define QUOTA_EVENTS_PROJECTS 4096 /* projects that may have a quota of events */

struct quota_limits_of_project {
    int64_t bytes, sessions, events; /* the maximum of bytes, open uploads, and recorded requests a minute; or QUOTA_NONE */
    int64_t client_sessions;         /* open uploads of one client: a subject with a credential */
    int64_t cpu_s, gpu_s;            /* seconds of processors and devices that runs may use (training/budget.h) */
};

enum quota_setter {
    QUOTA_OWN,       /* at most the ceiling, or none: set with project.quota on the project */
    QUOTA_FROM_ABOVE /* the ceiling: set with project.quota on the system */
};

/**
 * A change: sets the project's own quota or its ceiling. The lower one applies; without either there is no limit.
 * Stored content counts: if it is more than the quota, nothing can be added. Call quota_count_new() afterwards. The
 * permit: project.quota on it, for a ceiling also on the system. ERROR_INVALID for numbers out of range; while
 * recording, ERROR_DENIED above the ceiling.
 */
struct quota_change {
    struct change change;
    struct resource where; /* the project; its id is known */
    enum quota_setter setter;
    struct quota_limits_of_project limits;
};
RESULT quota_change_prepare(const struct resource *where, enum quota_setter setter, const struct quota_limits_of_project *limits,
                            struct quota_change *change_out, struct error *err);

/**
 * Adds the content from before a project's first quota to its count, outside the log's lock; until then the count is
 * too small. The permit: project.quota on `where`, of quota_change. Several gateways may do it at the same time.
 */
RESULT quota_count_new(const struct permit *permit, struct pg *pg, const struct resource *where, struct error *err)
    __attribute__((nonnull));

struct quota_use {
    struct quota_limits_of_project limits, ceiling;
    int64_t bytes_used;                     /* blobs, manifests, logs of runs, and bytes reserved by open uploads and logs */
    int64_t bytes_reserved;                 /* of them, by open uploads, and by logs that may still grow */
    int64_t sessions;                       /* open uploads */
    int64_t cpu_s, gpu_s;                   /* used by ended attempts of runs */
    int64_t cpu_reserved_s, gpu_reserved_s; /* reserved by open runs, beside that */
};
/** If the project has no quota, or its count is pending, everything is counted now. The permit: project.read. */
RESULT quota_read(const struct permit *permit, struct pg *pg, const struct resource *where, struct quota_use *use_out,
                  struct error *err) __attribute__((nonnull));
