/* Answers that are too large for the arena of a request: bundles of entries, and lines of exports. */
#include <stdatomic.h>

#include "gateway/api/api_priv.h"

#define LARGE_MAX 16 /* on their way at a time, 1 MiB each: their readers may be slow */
#define WAIT_MS   100
#define WAITS     20

static struct result answer(struct request *request, struct pg *pg, const struct api_large *kind, struct error *err)
{
    struct buffer OWNED_BUFFER bytes = BUFFER(kind->maximum);
    const struct result filled = kind->fill(request, pg, &bytes, err);

    if (!filled.ok) {
        atomic_fetch_sub(&request->gateway->bundles, 1);
        return filled;
    }
    response_buffer(request, 200, kind->type, &bytes, &request->gateway->bundles);
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
