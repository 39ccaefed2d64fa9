#include "gateway/pipeline/run_endings.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"

#define KNOWN_MS 60000 /* as long as the list may be old: it has the endings of two minutes */

struct run_endings {
    pthread_mutex_t mutex;
    int64_t set_ms; /* monotonic */
    bool is_whole;
    size_t count;
    struct run_ended ended[RUN_ENDED_MAX];
};

struct result run_endings_new(struct run_endings **endings_out, struct error *err)
{
    struct run_endings *endings = memory_zeroed(1, sizeof *endings);

    if (endings == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for leases that have ended");
    (void)pthread_mutex_init(&endings->mutex, NULL);
    endings->set_ms = clock_monotonic_ms();
    endings->is_whole = true;
    *endings_out = endings;
    return SUCCESS;
}

void run_endings_set(struct run_endings *endings, const struct run_ended *ended, size_t count, bool is_whole)
{
    assert(count <= RUN_ENDED_MAX);
    (void)pthread_mutex_lock(&endings->mutex);
    memcpy(endings->ended, ended, count * sizeof *ended);
    endings->count = count;
    endings->is_whole = is_whole;
    endings->set_ms = clock_monotonic_ms();
    (void)pthread_mutex_unlock(&endings->mutex);
}

static bool is_listed(const struct run_endings *endings, const struct run_holder *holder)
{
    for (size_t i = 0; i < endings->count; i++) {
        const struct run_ended *one = &endings->ended[i];
        if (uuid_equal(&one->run, &holder->run) && one->attempt == holder->attempt && one->node == holder->node) return true;
    }
    return false;
}

bool run_endings_have(struct run_endings *endings, const struct run_holder *holder)
{
    (void)pthread_mutex_lock(&endings->mutex);
    const bool is_known = endings->is_whole && clock_monotonic_ms() - endings->set_ms < KNOWN_MS;
    const bool has = !is_known || is_listed(endings, holder);
    (void)pthread_mutex_unlock(&endings->mutex);
    return has;
}

void run_endings_free(struct run_endings *endings)
{
    if (endings == NULL) return;
    (void)pthread_mutex_destroy(&endings->mutex);
    free(endings);
}
