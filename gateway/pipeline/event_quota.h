/*
 * gateway/pipeline/event_quota.h -- how many requests a minute this gateway may still serve for projects with a quota of events.
 *
 * All gateways together never serve more than the quota: each takes portions of the minute out of the database (registry/quota.h). A
 * portion that a gateway has not used at the end of the minute is lost. Projects without such a quota cost one read of a counter.
 * docs/quotas.md.
 */
#pragma once

#include "base/owned.h"
#include "base/result.h"
#include "base/uuid.h"
#include "storage/pg.h"

struct event_quota;

enum event_quota_verdict {
    EVENT_QUOTA_TAKEN,        /* go on */
    EVENT_QUOTA_ASK_DATABASE, /* ask again where that may block, with a database connection */
    EVENT_QUOTA_USED_UP       /* until the next minute */
};

RESULT event_quota_new(struct event_quota **quotas_out, struct error *err);
/** Reads which projects have a quota; on failure the old list stays. Blocks. */
void event_quota_refresh(struct event_quota *quotas, struct pg *pg);
struct event_quota_answer {
    enum event_quota_verdict verdict;
    unsigned wait_s; /* until the next minute of the database's clock */
    int64_t most;    /* the quota; 0: the project has none */
    int64_t left;    /* of it, for all gateways, as far as this one knows */
};
/** Counts one request of `project`. `pg` NULL: never blocks. ERROR_UNAVAILABLE: the database can't be asked. */
RESULT event_quota_take(struct event_quota *quotas, const struct uuid *project, struct pg *pg, struct event_quota_answer *now_out,
                        struct error *err);
void event_quota_free(struct event_quota *quotas);
DEFINE_OWNED(event_quota);
