/* A leaf that is read must be written again to the byte. */
#include <assert.h>

#include "audit/format/leaf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bytes text = {data, size};
    struct buffer OWNED_BUFFER again = BUFFER(2 * LEAF_MAX);
    struct leaf leaf;
    struct error err;

    if (!leaf_read(text, &leaf, &err).ok) return 0;
    assert(leaf_write(&leaf, &again, &err).ok);
    assert(bytes_equal(buffer_bytes(&again), text));
    return 0;
}
