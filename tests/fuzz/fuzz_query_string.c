/* A query string, in an arena as requests have it: what is accepted is printable, and its number is bounded. */
#include <assert.h>
#include <string.h>

#include "gateway/http/query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *text)
{
    for (const char *at = text; *at != '\0'; at++) assert(*at >= ' ' && *at <= '~');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED(arena) *arena = NULL;
    struct fields fields = {0};
    struct error err;

    if (!arena_new((size_t)1 << 20, &arena, &err).ok || !query_read((struct bytes){data, size}, arena, &fields, &err).ok)
        return 0;
    assert(fields.count <= REQUEST_ARGUMENTS_MAX);
    for (size_t i = 0; i < fields.count; i++) {
        check(fields.list[i].name);
        check(fields.list[i].value);
    }
    return 0;
}
