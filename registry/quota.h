/*
 * registry/quota.h -- what a project may have: bytes, open upload sessions, recorded requests a minute.
 *
 * Rule: bytes are counted in the statement that adds or removes them, so the count is exact with any number of gateways;
 * a project without a quota is not counted at all. docs/quotas.md.
 */
#pragma once

#include "registry/registry.h"

#define QUOTA_NONE         (-1)             /* not limited; of sessions: as for all projects */
#define QUOTA_SESSIONS_MAX 100000           /* as in migrations/0011_quota_rules.sql */
#define QUOTA_EVENTS_MAX   1000000000
#define QUOTA_EVENTS_PROJECTS 4096 /* may have a quota of events */

struct quota_limits_of_project {
    int64_t bytes, sessions, events; /* QUOTA_NONE, or the most: bytes, open uploads, recorded requests a minute */
    int64_t client_sessions;         /* open uploads of one client: a subject with a credential */
};

enum quota_setter {
    QUOTA_OWN,       /* below the ceiling, or none: by whoever may set the project's quota */
    QUOTA_FROM_ABOVE /* the ceiling: by whoever may set quotas of the whole registry */
};

/** A change: the project's own quota or its ceiling; the lower one holds, and where all are QUOTA_NONE nothing does. What is
 *  there counts, so it may be more than the quota: then nothing more comes in. Call quota_count_new() after it. The permit: project.quota on it, for a
 *  ceiling also on the system. ERROR_INVALID for numbers that are none; while recording, ERROR_DENIED above the ceiling. */
struct quota_change {
    struct change change;
    struct resource where; /* the project; its id is known */
    enum quota_setter setter;
    struct quota_limits_of_project limits;
};
RESULT quota_change_prepare(const struct resource *where, enum quota_setter setter,
                            const struct quota_limits_of_project *limits, struct quota_change *change_out, struct error *err);

/** What a project had before its first quota is added to its count, outside the log's lock; until then that is too small. Of one project,
 *  or (NULL) of any that waits for it because a gateway stopped in between; any number of gateways may do it at a time. *found_out: one
 *  waited. */
RESULT quota_count_new(struct pg *pg, const struct uuid *project, bool *found_out, struct error *err);

struct quota_use {
    struct quota_limits_of_project limits, ceiling;
    int64_t bytes_used;     /* blobs and manifests, and what open uploads have reserved */
    int64_t bytes_reserved; /* of them, by open uploads */
    int64_t sessions;       /* open uploads */
};
/** Also of a project without a quota, or with one that is not counted yet: then all is counted now. The permit: project.read. */
RESULT quota_read(const struct permit *permit, struct pg *pg, const struct resource *where, struct quota_use *use_out,
                  struct error *err) __attribute__((nonnull));

/** The project's quota of events, QUOTA_NONE if it has none. For the server itself: asks no permit, tells nothing. */
struct quota_events {
    struct uuid project;
    int64_t most;
};
/** At most `capacity` projects that have one, in the order of their ids. */
RESULT quota_events_list(struct pg *pg, struct quota_events *events_out, size_t capacity, size_t *count_out,
                         struct error *err);
/** What a gateway has been given of the database's minute. */
struct quota_portion {
    int64_t count;   /* may be 0: nothing is left for anybody */
    int64_t left_ms; /* of the minute, from when the statement ran: later than it was sent */
};
/** Takes up to `portion` requests out of those that are left of the minute. One statement of its own. */
RESULT quota_events_take(struct pg *pg, const struct quota_events *events, int64_t portion,
                         struct quota_portion *portion_out, struct error *err);
