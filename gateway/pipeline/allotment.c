#include "gateway/pipeline/allotment.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "registry/quota.h"

#define PROJECTS_MAX QUOTA_EVENTS_PROJECTS
#define PORTIONS     64   /* of a minute: more, and gateways ask often; fewer, and one holds what another needs */

struct pocket {
    struct quota_events quota;
    int64_t left, until_ms; /* until_ms: end of the database's minute, by our monotonic clock; 0: nothing was taken yet */
    bool is_over;           /* nothing is left for anybody in this minute */
};

struct allotment {
    atomic_size_t count; /* 0: nobody needs the mutex */
    pthread_mutex_t mutex;
    struct pocket *pockets;
};

struct result allotment_new(struct allotment **allotment_out, struct error *err)
{
    OWNED(allotment) *allotment = memory_zeroed(1, sizeof *allotment);

    if (allotment == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to count requests");
    pthread_mutex_init(&allotment->mutex, NULL);
    allotment->pockets = memory_zeroed(PROJECTS_MAX, sizeof *allotment->pockets);
    if (allotment->pockets == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to count requests");
    *allotment_out = GIVE(allotment);
    return SUCCESS;
}

static int compare(const void *project, const void *pocket)
{
    return memcmp(((const struct uuid *)project)->bytes, ((const struct pocket *)pocket)->quota.project.bytes, 16);
}

/* With the mutex. */
static struct pocket *find(struct allotment *allotment, const struct uuid *project)
{
    return bsearch(project, allotment->pockets, atomic_load(&allotment->count), sizeof *allotment->pockets, compare);
}

static void replace(struct allotment *allotment, struct pocket *pockets, const struct quota_events *events, size_t count)
{
    pthread_mutex_lock(&allotment->mutex);
    for (size_t i = 0; i < count; i++) {
        const struct pocket *known = find(allotment, &events[i].project);
        if (known != NULL && known->quota.most == events[i].most) pockets[i] = *known;
        pockets[i].quota = events[i];
    }
    free(allotment->pockets);
    allotment->pockets = pockets;
    atomic_store(&allotment->count, count);
    pthread_mutex_unlock(&allotment->mutex);
}

void allotment_refresh(struct allotment *allotment, struct pg *pg)
{
    struct quota_events *events = memory_zeroed(PROJECTS_MAX, sizeof *events);
    struct pocket *pockets = memory_zeroed(PROJECTS_MAX, sizeof *pockets);
    struct error err = {0};
    size_t count = 0;

    const bool ok = events != NULL && pockets != NULL && quota_events_list(pg, events, PROJECTS_MAX, &count, &err).ok;
    if (ok) replace(allotment, pockets, events, count);
    else free(pockets);
    if (!ok && err.kind != ERROR_NONE) log_error("quotas of events can't be read", &err);
    free(events);
}

/* With the mutex: out of the pocket, if it is for this minute. */
static enum allotted take_of(struct pocket *pocket, int64_t now_ms)
{
    if (now_ms >= pocket->until_ms) {
        pocket->left = 0;
        pocket->is_over = false;
    }
    if (pocket->left > 0) {
        pocket->left--;
        return ALLOTTED;
    }
    return pocket->is_over ? ALLOTTED_NOTHING : ALLOTTED_LATER;
}

static struct allotted_now take(struct allotment *allotment, const struct uuid *project, struct quota_events *quota)
{
    const int64_t now_ms = clock_monotonic_ms();
    struct allotted_now now = {.allotted = ALLOTTED};

    pthread_mutex_lock(&allotment->mutex);
    struct pocket *pocket = find(allotment, project);
    if (pocket != NULL) {
        now.allotted = take_of(pocket, now_ms);
        now.wait_s = pocket->until_ms > now_ms ? (unsigned)((pocket->until_ms - now_ms + 999) / 1000) : 1;
        *quota = pocket->quota;
    }
    pthread_mutex_unlock(&allotment->mutex);
    return now;
}

/* One of the portion is for who asked. The minute ends by when it was asked for: an answer that comes late is none of the next. */
static enum allotted fill(struct allotment *allotment, const struct quota_events *quota, const struct quota_portion *portion,
                          int64_t asked_ms)
{
    const int64_t now_ms = clock_monotonic_ms();

    pthread_mutex_lock(&allotment->mutex);
    struct pocket *pocket = find(allotment, &quota->project);
    if (pocket != NULL) {
        if (now_ms >= pocket->until_ms) pocket->left = 0; /* of the minute before */
        pocket->left += portion->count > 0 ? portion->count - 1 : 0;
        pocket->is_over = portion->count == 0;
        pocket->until_ms = asked_ms + portion->left_ms;
    }
    pthread_mutex_unlock(&allotment->mutex);
    return portion->count > 0 ? ALLOTTED : ALLOTTED_NOTHING;
}

struct result allotment_take(struct allotment *allotment, const struct uuid *project, struct pg *pg,
                             struct allotted_now *now_out, struct error *err)
{
    struct quota_events quota = {.most = 0};
    struct quota_portion portion;
    struct allotted_now now = {.allotted = ALLOTTED};

    if (allotment != NULL && atomic_load(&allotment->count) > 0) now = take(allotment, project, &quota);
    if (now.allotted == ALLOTTED_LATER && pg != NULL) {
        const int64_t asked_ms = clock_monotonic_ms();
        TRY(quota_events_take(pg, &quota, quota.most / PORTIONS + 1, &portion, err));
        now = (struct allotted_now){.allotted = fill(allotment, &quota, &portion, asked_ms),
                                    .wait_s = (unsigned)((portion.left_ms + 999) / 1000)};
    }
    *now_out = now;
    return SUCCESS;
}

void allotment_free(struct allotment *allotment)
{
    if (allotment == NULL) return;
    pthread_mutex_destroy(&allotment->mutex);
    free(allotment->pockets);
    free(allotment);
}
