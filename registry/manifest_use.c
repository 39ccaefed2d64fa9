#include "registry/manifest_use_priv.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "crypto/digest.h"
#include "registry/manifest_use_store.h"
#include "registry/metrics.h"
#include "registry/registry_priv.h"

#define SLOTS    65536   /* manifests that are known to be noted; a collision only costs one more write */
#define WAITING  65536   /* notes not written yet, 10 MB: all manifests that a gateway can serve in six seconds */
#define MANY     8192    /* when so many notes wait, they are written within half a second */
#define PIECE    2048    /* notes in one statement */
#define AGAIN_MS 3600000 /* a manifest is written at most once in this time */

struct waiting {
    size_t count, capacity;
    struct manifest_use *uses;
};

struct manifest_uses {
    pthread_mutex_t mutex;
    struct noted {
        uint64_t name;
        int64_t noted_ms;
    } noted[SLOTS];
    struct waiting waiting;
};

struct result manifest_uses_new(struct manifest_uses **uses_out, struct error *err)
{
    struct manifest_uses *uses = memory_zeroed(1, sizeof *uses);

    if (uses == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to note what is pulled");
    pthread_mutex_init(&uses->mutex, NULL);
    *uses_out = uses;
    return SUCCESS;
}

/* A hash of digest and repository: the same digest has another name in another repository. */
static uint64_t name_of(const struct uuid *repository, const char *digest)
{
    return registry_slot(repository, digest, SIZE_MAX) | 1;
}

static struct noted *slot_of(struct manifest_uses *uses, uint64_t name)
{
    return &uses->noted[(name >> 1) % SLOTS]; /* the lowest bit is set in every name */
}

static bool has_room(struct waiting *waiting)
{
    if (waiting->count < waiting->capacity) return true;
    if (waiting->capacity == WAITING) return false;
    const size_t capacity = waiting->capacity == 0 ? PIECE : 2 * waiting->capacity;
    struct manifest_use *larger = memory_resize(waiting->uses, capacity * sizeof *larger);
    if (larger == NULL) return false;
    waiting->uses = larger;
    waiting->capacity = capacity;
    return true;
}

/* A pull that can't be noted now is noted when the manifest is pulled again. */
void manifest_uses_note(struct manifest_uses *uses, const struct uuid *repository, const char *digest)
{
    const uint64_t name = name_of(repository, digest);
    const int64_t now_ms = clock_monotonic_ms();

    pthread_mutex_lock(&uses->mutex);
    struct noted *noted = slot_of(uses, name);
    const bool is_new = noted->name != name || now_ms - noted->noted_ms >= AGAIN_MS;
    const bool is_noted = is_new && has_room(&uses->waiting);
    if (is_noted) {
        struct manifest_use *use = &uses->waiting.uses[uses->waiting.count++];
        *noted = (struct noted){name, now_ms};
        use->repository = *repository;
        (void)snprintf(use->digest, sizeof use->digest, "%s", digest);
    }
    pthread_mutex_unlock(&uses->mutex);
    if (is_new && !is_noted) metric_add(&registry_metrics_rows[METRIC_PULLS_NOT_NOTED], 1);
}

bool manifest_uses_are_many(struct manifest_uses *uses)
{
    pthread_mutex_lock(&uses->mutex);
    const size_t count = uses->waiting.count;
    pthread_mutex_unlock(&uses->mutex);
    return count >= MANY;
}

static struct waiting take(struct manifest_uses *uses)
{
    pthread_mutex_lock(&uses->mutex);
    const struct waiting taken = uses->waiting;
    uses->waiting = (struct waiting){0};
    pthread_mutex_unlock(&uses->mutex);
    return taken;
}

/* Adds the unwritten notes to those made since, within the same bound. */
static void put_back(struct manifest_uses *uses, const struct waiting *taken, size_t from)
{
    size_t i = from;

    pthread_mutex_lock(&uses->mutex);
    for (; i < taken->count && has_room(&uses->waiting); i++) uses->waiting.uses[uses->waiting.count++] = taken->uses[i];
    metric_add(&registry_metrics_rows[METRIC_PULLS_NOT_NOTED], (int64_t)(taken->count - i));
    for (; i < taken->count; i++) *slot_of(uses, name_of(&taken->uses[i].repository, taken->uses[i].digest)) = (struct noted){0};
    pthread_mutex_unlock(&uses->mutex);
}

struct result manifest_uses_write(struct manifest_uses *uses, struct pg *pg, struct error *err)
{
    const struct waiting taken = take(uses);
    struct result result = SUCCESS;
    size_t written = 0;

    while (written < taken.count && result.ok) {
        const size_t left = taken.count - written, piece = left < PIECE ? left : PIECE;
        result = manifest_uses_insert(pg, taken.uses + written, piece, err);
        if (result.ok) written += piece;
    }
    if (!result.ok) put_back(uses, &taken, written);
    free(taken.uses);
    return result;
}

void manifest_uses_free(struct manifest_uses *uses)
{
    if (uses == NULL) return;
    pthread_mutex_destroy(&uses->mutex);
    free(uses->waiting.uses);
    free(uses);
}
