/* Content-Range: an accepted range is in order, and fits a signed number as offsets do. */
#include <assert.h>

#include "base/memory.h"
#include "gateway/http/range.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED_STRING text = memory_copy_text((const char *)data, size);
    struct range range = {0};

    if (text != NULL && content_range_read(text, &range)) assert(range.first <= range.last && range.last <= INT64_MAX);
    return 0;
}
