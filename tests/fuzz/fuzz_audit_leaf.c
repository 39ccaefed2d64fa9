/* A leaf that is read must be written again to the byte; and what the quick reader reads, the other one reads, too. */
#include <assert.h>

#include "audit/format/leaf_quick_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must_be(const struct leaf *leaf, struct bytes text)
{
    struct buffer OWNED_BUFFER again = BUFFER(2 * LEAF_MAX);
    struct error err;

    assert(leaf_write(leaf, &again, &err).ok);
    assert(bytes_equal(buffer_bytes(&again), text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bytes text = {data, size};
    struct leaf leaf;
    struct error err;

    const bool is_quick = leaf_read_quick(text, &leaf);
    if (is_quick) must_be(&leaf, text);
    const bool is_read = leaf_read_any(text, &leaf, &err).ok;
    if (is_read) must_be(&leaf, text);
    assert(is_read || !is_quick);
    assert(leaf_read(text, &leaf, &err).ok == is_read);
    return 0;
}
