#include "gateway/allotment.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "registry/quota.h"

#define PROJECTS_MAX 4096 /* with a quota of events; in order of their ids */
#define PORTIONS     64   /* of a minute: more, and gateways ask often; fewer, and one holds what another needs */

struct pocket {
    struct quota_events quota;
    int64_t minute, left;
    bool is_over; /* nothing is left for anybody in this minute */
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

static int64_t minute_now(void)
{
    return clock_wall_ms() / 60000;
}

unsigned allotment_wait_s(void)
{
    return 60 - (unsigned)(clock_wall_ms() / 1000 % 60);
}

/* With the mutex. */
static struct pocket *find(struct allotment *allotment, const struct uuid *project)
{
    const size_t count = atomic_load(&allotment->count);

    for (size_t i = 0; i < count; i++)
        if (uuid_equal(&allotment->pockets[i].quota.project, project)) return &allotment->pockets[i];
    return NULL;
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
static enum allotted take_of(struct pocket *pocket, int64_t minute)
{
    if (pocket->minute != minute) {
        pocket->minute = minute;
        pocket->left = 0;
        pocket->is_over = false;
    }
    if (pocket->left > 0) {
        pocket->left--;
        return ALLOTTED;
    }
    return pocket->is_over ? ALLOTTED_NOTHING : ALLOTTED_LATER;
}

static enum allotted take(struct allotment *allotment, const struct uuid *project, int64_t minute, struct quota_events *quota)
{
    pthread_mutex_lock(&allotment->mutex);
    struct pocket *pocket = find(allotment, project);
    const enum allotted allotted = pocket == NULL ? ALLOTTED : take_of(pocket, minute);
    if (pocket != NULL) *quota = pocket->quota;
    pthread_mutex_unlock(&allotment->mutex);
    return allotted;
}

/* One of the portion is for who asked. */
static enum allotted fill(struct allotment *allotment, const struct quota_events *quota, int64_t minute, int64_t portion)
{
    pthread_mutex_lock(&allotment->mutex);
    struct pocket *pocket = find(allotment, &quota->project);
    if (pocket != NULL && pocket->minute == minute && portion > 0) pocket->left += portion - 1;
    if (pocket != NULL && pocket->minute == minute && portion == 0) pocket->is_over = true;
    pthread_mutex_unlock(&allotment->mutex);
    return portion > 0 ? ALLOTTED : ALLOTTED_NOTHING;
}

struct result allotment_take(struct allotment *allotment, const struct uuid *project, struct pg *pg,
                             enum allotted *allotted_out, struct error *err)
{
    const int64_t minute = minute_now();
    struct quota_events quota = {.most = 0};
    int64_t portion = 0;

    *allotted_out = ALLOTTED;
    if (allotment == NULL || atomic_load(&allotment->count) == 0) return SUCCESS;
    *allotted_out = take(allotment, project, minute, &quota);
    if (*allotted_out != ALLOTTED_LATER || pg == NULL) return SUCCESS;
    TRY(quota_events_take(pg, &quota, minute, quota.most / PORTIONS + 1, &portion, err));
    *allotted_out = fill(allotment, &quota, minute, portion);
    return SUCCESS;
}

void allotment_free(struct allotment *allotment)
{
    if (allotment == NULL) return;
    pthread_mutex_destroy(&allotment->mutex);
    free(allotment->pockets);
    free(allotment);
}
