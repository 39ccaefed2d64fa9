/* Answers that are too large for the arena of a request: bundles of entries, and lines of exports. */
#include <string.h>

#include "base/memory.h"
#include "gateway/api/api_priv.h"

#define LARGE_MAX 16 /* on their way at a time, 1 MiB each: their readers may be slow */
#define WAIT_MS   100
#define WAITS     20

struct large {
    struct buffer bytes;
    struct gateway *gateway;
};

static bool read_large(void *state, uint64_t offset, uint8_t *destination, size_t length)
{
    const struct large *large = state;

    memcpy(destination, large->bytes.data + offset, length);
    return true;
}

static struct result read_on_a_worker(void *state, uint64_t offset, uint8_t *destination, size_t length, struct error *err)
{
    (void)err;
    (void)read_large(state, offset, destination, length);
    return SUCCESS;
}

static void close_large(void *state)
{
    struct large *large = state;

    buffer_done(&large->bytes);
    atomic_fetch_sub(&large->gateway->bundles, 1);
    free(large);
}

/* NULL: no memory. It is counted until close_large(). */
static struct large *new_large(struct gateway *gateway, size_t maximum)
{
    struct large *large = memory_zeroed(1, sizeof *large);

    if (large == NULL) {
        atomic_fetch_sub(&gateway->bundles, 1);
        return NULL;
    }
    large->bytes = BUFFER(maximum);
    large->gateway = gateway;
    return large;
}

static struct result answer(struct request *request, struct pg *pg, const struct api_large *kind, struct error *err)
{
    struct large *large = new_large(request->gateway, kind->maximum);

    if (large == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for %s", kind->what);
    const struct result filled = kind->fill(request, pg, &large->bytes, err);
    if (!filled.ok) {
        close_large(large);
        return filled;
    }
    const struct response_source source = {
        .state = large, .length = large->bytes.length, .read = read_on_a_worker, .read_cached = read_large, .close = close_large};
    response_from_source(request, 200, kind->type, &source);
    return SUCCESS;
}

/* Waits for a place without a worker. */
struct result api_answer_large(struct request *request, struct pg *pg, const struct api_large *kind, struct error *err)
{
    if (atomic_fetch_add(&request->gateway->bundles, 1) < LARGE_MAX) return answer(request, pg, kind, err);
    atomic_fetch_sub(&request->gateway->bundles, 1);
    if (request->waits >= WAITS) return failure(err, ERROR_UNAVAILABLE, "too many %s are on their way", kind->what);
    request_wait(request, WAIT_MS);
    return SUCCESS;
}
