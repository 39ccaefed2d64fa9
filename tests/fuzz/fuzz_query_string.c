/* A query string, in an arena as of a request: accepted fields are printable, and their number is bounded. */
#include "tests/fuzz/check_fields.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED(arena) *arena = NULL;
    struct fields fields = {0};
    struct error err;

    if (!arena_new((size_t)1 << 20, &arena, &err).ok || !query_read((struct bytes){data, size}, arena, &fields, &err).ok)
        return 0;
    check_fields(&fields);
    return 0;
}
