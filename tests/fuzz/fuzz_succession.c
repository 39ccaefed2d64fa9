/* A statement about a new origin that is read is written again byte for byte, and its logs are two of one registry. */
#include <assert.h>
#include <string.h>

#include "audit/format/succession.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer OWNED_BUFFER text = BUFFER(SUCCESSION_MAX);
    struct succession read;
    struct error err;

    if (!succession_read((struct bytes){data, size}, &read, &err).ok) return 0;
    const uint64_t before = succession_number(read.before.origin, read.registry);
    assert(before > 0 && succession_number(read.after.origin, read.registry) == before + 1);
    assert(read.checkpoint.length > 0 && read.checkpoint.length < size);
    assert(succession_write(&read, &text, &err).ok);
    assert(text.length == size && memcmp(text.data, data, size) == 0);
    return 0;
}
