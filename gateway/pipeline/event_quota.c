#include "gateway/pipeline/event_quota.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "registry/event_quota.h"
#include "registry/quota.h"

#define PROJECTS_MAX QUOTA_EVENTS_PROJECTS
#define PORTIONS \
    64 /* of a minute. With more portions gateways would ask too often; with fewer, one would hold a portion that another needs */

struct bucket {
    struct quota_events quota;
    int64_t others;         /* left for all gateways when the portion was taken */
    int64_t left, until_ms; /* until_ms: end of the database's minute, by our monotonic clock; 0: no portion was taken yet */
    bool is_over;           /* the project's quota is used up in this minute */
};

struct event_quota {
    atomic_size_t count; /* 0: no caller needs the mutex */
    pthread_mutex_t mutex;
    struct bucket *buckets;
};

struct result event_quota_new(struct event_quota **quotas_out, struct error *err)
{
    OWNED(event_quota) *quotas = memory_zeroed(1, sizeof *quotas);

    if (quotas == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to count requests");
    pthread_mutex_init(&quotas->mutex, NULL);
    quotas->buckets = memory_zeroed(PROJECTS_MAX, sizeof *quotas->buckets);
    if (quotas->buckets == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to count requests");
    *quotas_out = GIVE(quotas);
    return SUCCESS;
}

static int compare(const void *project, const void *bucket)
{
    return memcmp(((const struct uuid *)project)->bytes, ((const struct bucket *)bucket)->quota.project.bytes, 16);
}

/* With the mutex. */
static struct bucket *find(struct event_quota *quotas, const struct uuid *project)
{
    return bsearch(project, quotas->buckets, atomic_load(&quotas->count), sizeof *quotas->buckets, compare);
}

static void replace(struct event_quota *quotas, struct bucket *buckets, const struct quota_events *events, size_t count)
{
    pthread_mutex_lock(&quotas->mutex);
    for (size_t i = 0; i < count; i++) {
        const struct bucket *known = find(quotas, &events[i].project);
        if (known != NULL && known->quota.most == events[i].most) buckets[i] = *known;
        buckets[i].quota = events[i];
    }
    free(quotas->buckets);
    quotas->buckets = buckets;
    atomic_store(&quotas->count, count);
    pthread_mutex_unlock(&quotas->mutex);
}

void event_quota_refresh(struct event_quota *quotas, struct pg *pg)
{
    struct quota_events *events = memory_zeroed(PROJECTS_MAX, sizeof *events);
    struct bucket *buckets = memory_zeroed(PROJECTS_MAX, sizeof *buckets);
    struct error err = {0};
    size_t count = 0;

    const bool ok = events != NULL && buckets != NULL && quota_events_list(pg, events, PROJECTS_MAX, &count, &err).ok;
    if (ok) replace(quotas, buckets, events, count);
    else free(buckets);
    if (!ok && err.kind != ERROR_NONE) log_error("quotas of events can't be read", &err);
    free(events);
}

/* With the mutex: takes one out of the bucket, if the bucket is for this minute. */
static enum event_quota_verdict take_of(struct bucket *bucket, int64_t now_ms)
{
    if (now_ms >= bucket->until_ms) {
        bucket->left = 0;
        bucket->is_over = false;
    }
    if (bucket->left > 0) {
        bucket->left--;
        return EVENT_QUOTA_TAKEN;
    }
    return bucket->is_over ? EVENT_QUOTA_USED_UP : EVENT_QUOTA_ASK_DATABASE;
}

static struct event_quota_answer take(struct event_quota *quotas, const struct uuid *project, struct quota_events *quota)
{
    const int64_t now_ms = clock_monotonic_ms();
    struct event_quota_answer now = {.verdict = EVENT_QUOTA_TAKEN};

    pthread_mutex_lock(&quotas->mutex);
    struct bucket *bucket = find(quotas, project);
    if (bucket != NULL) {
        now.verdict = take_of(bucket, now_ms);
        now.wait_s = bucket->until_ms > now_ms ? (unsigned)((bucket->until_ms - now_ms + 999) / 1000) : 1;
        now.most = bucket->quota.most;
        now.left = now_ms < bucket->until_ms ? bucket->left + bucket->others : 0;
        *quota = bucket->quota;
    }
    pthread_mutex_unlock(&quotas->mutex);
    return now;
}

/* One of the portion is for this request. The end of the minute is computed from the time of the question, so a late answer does not count for the
 * next minute. */
static enum event_quota_verdict fill(struct event_quota *quotas, const struct quota_events *quota,
                                     const struct quota_portion *portion, int64_t asked_ms)
{
    const int64_t now_ms = clock_monotonic_ms();

    pthread_mutex_lock(&quotas->mutex);
    struct bucket *bucket = find(quotas, &quota->project);
    if (bucket != NULL) {
        if (now_ms >= bucket->until_ms) bucket->left = 0; /* left over from the minute before */
        bucket->left += portion->count > 0 ? portion->count - 1 : 0;
        bucket->others = portion->others;
        bucket->is_over = portion->count == 0;
        bucket->until_ms = asked_ms + portion->left_ms;
    }
    pthread_mutex_unlock(&quotas->mutex);
    return portion->count > 0 ? EVENT_QUOTA_TAKEN : EVENT_QUOTA_USED_UP;
}

struct result event_quota_take(struct event_quota *quotas, const struct uuid *project, struct pg *pg,
                               struct event_quota_answer *now_out, struct error *err)
{
    struct quota_events quota = {.most = 0};
    struct quota_portion portion;
    struct event_quota_answer now = {.verdict = EVENT_QUOTA_TAKEN};

    if (quotas != NULL && atomic_load(&quotas->count) > 0) now = take(quotas, project, &quota);
    if (now.verdict == EVENT_QUOTA_ASK_DATABASE && pg != NULL) {
        const int64_t asked_ms = clock_monotonic_ms();
        TRY(quota_events_take(pg, &quota, quota.most / PORTIONS + 1, &portion, err));
        now = (struct event_quota_answer){.verdict = fill(quotas, &quota, &portion, asked_ms),
                                          .wait_s = (unsigned)((portion.left_ms + 999) / 1000),
                                          .most = quota.most,
                                          .left = portion.others + (portion.count > 0 ? portion.count - 1 : 0)};
    }
    *now_out = now;
    return SUCCESS;
}

void event_quota_free(struct event_quota *quotas)
{
    if (quotas == NULL) return;
    pthread_mutex_destroy(&quotas->mutex);
    free(quotas->buckets);
    free(quotas);
}
