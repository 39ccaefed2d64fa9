#include "gateway/pipeline/run_endings.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"

#define KNOWN_MS 60000          /* as long as an answer counts */
#define WATCH_MS (2 * KNOWN_MS) /* as long as a lease is watched after a question: a body asks each `lease_time`, at most 60 s */

struct watch {
    struct run_watched lease;
    int64_t asked_ms, known_ms; /* monotonic: the last question, and when the lease was known to go on */
};

struct run_endings {
    pthread_mutex_t mutex;
    size_t capacity, count;
    struct watch *watches;
};

struct result run_endings_new(size_t capacity, struct run_endings **endings_out, struct error *err)
{
    struct run_endings *endings = memory_zeroed(1, sizeof *endings);

    if (endings != NULL) endings->watches = memory_zeroed(capacity, sizeof *endings->watches);
    if (endings == NULL || endings->watches == NULL) {
        free(endings);
        return failure(err, ERROR_NO_MEMORY, "no memory for leases that are watched");
    }
    (void)pthread_mutex_init(&endings->mutex, NULL);
    endings->capacity = capacity;
    *endings_out = endings;
    return SUCCESS;
}

static struct watch *find(const struct run_endings *endings, const struct uuid *run, int64_t attempt, int64_t node)
{
    for (size_t i = 0; i < endings->count; i++) {
        struct watch *watch = &endings->watches[i];
        if (watch->lease.attempt == attempt && watch->lease.node == node && uuid_equal(&watch->lease.run, run)) return watch;
    }
    return NULL;
}

/* A connection has one body at a time, and a body asks often. So the one that was not asked for longest has no body any more. */
static struct watch *take_place(struct run_endings *endings)
{
    struct watch *oldest = &endings->watches[0];

    if (endings->count < endings->capacity) return &endings->watches[endings->count++];
    for (size_t i = 1; i < endings->count; i++)
        if (endings->watches[i].asked_ms < oldest->asked_ms) oldest = &endings->watches[i];
    return oldest;
}

/* A lease that was not watched meanwhile has a new body, whose request was checked when it came. */
bool run_endings_have(struct run_endings *endings, const struct run_holder *holder)
{
    const int64_t now_ms = clock_monotonic_ms();

    (void)pthread_mutex_lock(&endings->mutex);
    struct watch *watch = find(endings, &holder->run, holder->attempt, holder->node);
    if (watch == NULL) {
        watch = take_place(endings);
        *watch = (struct watch){.lease = {.run = holder->run, .attempt = holder->attempt, .node = holder->node},
                                .known_ms = now_ms,
                                .asked_ms = now_ms};
    }
    if (now_ms - watch->asked_ms >= WATCH_MS) watch->known_ms = now_ms;
    watch->asked_ms = now_ms;
    const bool has = watch->lease.has_ended || now_ms - watch->known_ms >= KNOWN_MS;
    (void)pthread_mutex_unlock(&endings->mutex);
    return has;
}

size_t run_endings_watched(struct run_endings *endings, size_t *at, struct run_watched watched_out[RUN_WATCHED_MAX])
{
    const int64_t now_ms = clock_monotonic_ms();
    size_t count = 0;

    (void)pthread_mutex_lock(&endings->mutex);
    for (; *at < endings->count && count < RUN_WATCHED_MAX; (*at)++) {
        const struct watch *watch = &endings->watches[*at];
        if (!watch->lease.has_ended && now_ms - watch->asked_ms < WATCH_MS) watched_out[count++] = watch->lease;
    }
    (void)pthread_mutex_unlock(&endings->mutex);
    return count;
}

void run_endings_note(struct run_endings *endings, const struct run_watched *watched, size_t count)
{
    const int64_t now_ms = clock_monotonic_ms();

    (void)pthread_mutex_lock(&endings->mutex);
    for (size_t i = 0; i < count; i++) {
        struct watch *watch = find(endings, &watched[i].run, watched[i].attempt, watched[i].node);
        if (watch == NULL) continue;
        watch->lease.has_ended = watched[i].has_ended;
        watch->known_ms = now_ms;
    }
    (void)pthread_mutex_unlock(&endings->mutex);
}

void run_endings_free(struct run_endings *endings)
{
    if (endings == NULL) return;
    (void)pthread_mutex_destroy(&endings->mutex);
    free(endings->watches);
    free(endings);
}
