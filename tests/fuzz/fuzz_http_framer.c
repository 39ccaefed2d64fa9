/*
 * Bytes of a connection: the same bytes pass, however they are cut. Passed bytes pass again unchanged, and bodies stay unchanged.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/http/framer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct http_limits limits = {.headers = 2048, .path = 256, .query = 512};

struct run {
    struct framer framer;
    uint8_t *bytes;
    size_t length;
};

static void pay(struct run *run)
{
    while (run->framer.queued_count > 0) run->length += framer_take_queued(&run->framer, run->bytes + run->length, 3);
}

/* As gateway/http/framer_read.c, with pieces of `piece` bytes. */
static struct run run_over(const uint8_t *data, size_t size, size_t piece)
{
    struct run run = {.bytes = malloc(size + FRAMER_END_MAX + 1)};

    assert(run.bytes != NULL);
    framer_begin(&run.framer, &limits);
    for (size_t at = 0; at < size;) {
        const size_t part = framer_is_holding(&run.framer) ? 1 : size - at < piece ? size - at : piece;
        if (framer_is_holding(&run.framer)) {
            framer_pass_one(&run.framer, data[at]);
        } else {
            memcpy(run.bytes + run.length, data + at, part);
            const size_t passed = framer_pass(&run.framer, run.bytes + run.length, part);
            assert(passed <= part);
            run.length += passed;
        }
        pay(&run);
        at += part;
    }
    return run;
}

static void check_same(const struct run *a, const struct run *b)
{
    assert(a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0);
    assert(a->framer.refusal.status == b->framer.refusal.status && a->framer.refusal.why == b->framer.refusal.why);
    assert(a->framer.requests == b->framer.requests && a->framer.stage == b->framer.stage && a->framer.left == b->framer.left);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 65536) return 0;
    struct run whole = run_over(data + 1, size - 1, size);
    struct run pieces = run_over(data + 1, size - 1, 1 + data[0] % 32);
    struct run single = run_over(data + 1, size - 1, 1);
    struct run again = run_over(whole.bytes, whole.length, size + FRAMER_END_MAX);

    check_same(&whole, &pieces);
    check_same(&whole, &single);
    assert(again.framer.requests == whole.framer.requests);
    assert((whole.framer.stage == FRAMER_REFUSED) == (whole.framer.refusal.status >= 400));
    if (whole.framer.stage != FRAMER_REFUSED) check_same(&whole, &again);
    else
        assert(whole.framer.requests > 0 && again.framer.stage != FRAMER_METHOD && again.framer.stage != FRAMER_TARGET &&
               again.framer.stage != FRAMER_VALUE);
    free(whole.bytes);
    free(pieces.bytes);
    free(single.bytes);
    free(again.bytes);
    return 0;
}
