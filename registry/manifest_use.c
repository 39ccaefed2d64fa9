#include "registry/manifest_use.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "crypto/digest.h"
#include "registry/collect_store.h"
#include "registry/registry_priv.h"

#define PLACES     8192    /* manifests that are remembered as noted; two in one place cost a writing more */
#define WAITING    2048    /* noted and not written; more in a few seconds are not noted */
#define AGAIN_MS   3600000 /* a manifest is written once in so long */

struct manifest_uses {
    pthread_mutex_t mutex;
    struct noted {
        uint64_t name;
        int64_t noted_ms;
    } noted[PLACES];
    size_t count;
    struct manifest_use waiting[WAITING];
};

struct result manifest_uses_new(struct manifest_uses **uses_out, struct error *err)
{
    struct manifest_uses *uses = memory_zeroed(1, sizeof *uses);

    if (uses == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to note what is pulled");
    pthread_mutex_init(&uses->mutex, NULL);
    *uses_out = uses;
    return SUCCESS;
}

/* The digest is as good as random; the repository makes it another one. */
static uint64_t name_of(const struct uuid *repository, const char *digest)
{
    return registry_place(repository, digest, SIZE_MAX) | 1;
}

void manifest_uses_note(struct manifest_uses *uses, const struct uuid *repository, const char *digest)
{
    const uint64_t name = name_of(repository, digest);
    const int64_t now_ms = clock_monotonic_ms();

    pthread_mutex_lock(&uses->mutex);
    struct noted *noted = &uses->noted[name % PLACES];
    const bool is_new = noted->name != name || now_ms - noted->noted_ms >= AGAIN_MS;
    if (is_new && uses->count < WAITING) {
        struct manifest_use *use = &uses->waiting[uses->count++];
        *noted = (struct noted){name, now_ms};
        use->repository = *repository;
        (void)snprintf(use->digest, sizeof use->digest, "%s", digest);
    }
    pthread_mutex_unlock(&uses->mutex);
}

struct result manifest_uses_write(struct manifest_uses *uses, struct pg *pg, struct error *err)
{
    pthread_mutex_lock(&uses->mutex);
    const size_t count = uses->count;
    pthread_mutex_unlock(&uses->mutex);
    if (count == 0) return SUCCESS;
    struct manifest_use *waiting = memory_zeroed(WAITING, sizeof *waiting);
    if (waiting == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to write what is pulled");

    pthread_mutex_lock(&uses->mutex);
    const size_t taken = uses->count;
    memcpy(waiting, uses->waiting, taken * sizeof *waiting);
    uses->count = 0;
    pthread_mutex_unlock(&uses->mutex);
    const struct result written = manifest_uses_insert(pg, waiting, taken, err);
    free(waiting);
    return written;
}

void manifest_uses_free(struct manifest_uses *uses)
{
    if (uses == NULL) return;
    pthread_mutex_destroy(&uses->mutex);
    free(uses);
}
