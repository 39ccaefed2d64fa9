/* Bytes of a connection: however they are cut, the same ones pass; what passes passes again unchanged; bodies stay as they were. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/http/inlet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct http_limits limits = {.headers = 2048, .path = 256, .query = 512};

struct run {
    struct inlet inlet;
    uint8_t *bytes;
    size_t length;
};

static void pay(struct run *run)
{
    while (run->inlet.owed_count > 0) run->length += inlet_pay(&run->inlet, run->bytes + run->length, 3);
}

/* As gateway/http/inlet_read.c does it, with pieces of `piece` bytes. */
static struct run run_over(const uint8_t *data, size_t size, size_t piece)
{
    struct run run = {.bytes = malloc(size + INLET_END_MAX + 1)};

    assert(run.bytes != NULL);
    inlet_begin(&run.inlet, &limits);
    for (size_t at = 0; at < size;) {
        const size_t part = inlet_is_holding(&run.inlet) ? 1 : size - at < piece ? size - at : piece;
        if (inlet_is_holding(&run.inlet)) {
            inlet_pass_one(&run.inlet, data[at]);
        } else {
            memcpy(run.bytes + run.length, data + at, part);
            const size_t passed = inlet_pass(&run.inlet, run.bytes + run.length, part);
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
    assert(a->inlet.refusal.status == b->inlet.refusal.status && a->inlet.refusal.why == b->inlet.refusal.why);
    assert(a->inlet.requests == b->inlet.requests && a->inlet.stage == b->inlet.stage && a->inlet.left == b->inlet.left);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 65536) return 0;
    struct run whole = run_over(data + 1, size - 1, size);
    struct run pieces = run_over(data + 1, size - 1, 1 + data[0] % 32);
    struct run single = run_over(data + 1, size - 1, 1);
    struct run again = run_over(whole.bytes, whole.length, size + INLET_END_MAX);

    check_same(&whole, &pieces);
    check_same(&whole, &single);
    assert(again.inlet.requests == whole.inlet.requests);
    assert((whole.inlet.stage == INLET_REFUSED) == (whole.inlet.refusal.status >= 400));
    if (whole.inlet.stage != INLET_REFUSED) check_same(&whole, &again);
    else assert(whole.inlet.requests > 0 && again.inlet.stage != INLET_METHOD && again.inlet.stage != INLET_TARGET && again.inlet.stage != INLET_VALUE);
    free(whole.bytes);
    free(pieces.bytes);
    free(single.bytes);
    free(again.bytes);
    return 0;
}
