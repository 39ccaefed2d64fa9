/* A checkpoint without extension lines is written again to the byte. */
#include <assert.h>

#include "audit/format/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer OWNED_BUFFER again = BUFFER(CHECKPOINT_TEXT_MAX);
    struct checkpoint checkpoint;
    struct error err;

    if (!checkpoint_read((struct bytes){data, size}, &checkpoint, &err).ok) return 0;
    assert(checkpoint_write(&checkpoint, &again, &err).ok);
    assert(again.length <= size && bytes_equal(buffer_bytes(&again), (struct bytes){data, again.length}));
    return 0;
}
