/* Range: the first eight bytes are the size of the thing. A part lies inside it. */
#include <assert.h>

#include "base/memory.h"
#include "gateway/http/range.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct range range = {0};

    if (size < 8) return 0;
    const uint64_t whole = load_u64(data);
    OWNED_STRING text = memory_copy_text((const char *)data + 8, size - 8);
    if (text != NULL && range_read(text, whole, &range) == RANGE_PART) assert(range.first <= range.last && range.last < whole);
    return 0;
}
