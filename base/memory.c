#include "base/memory.h"

#include <string.h>

#include "base/fault.h"

void *memory_zeroed(size_t count, size_t size)
{
    return fault_is_due() ? NULL : calloc(count, size);
}

void *memory_resize(void *old, size_t size)
{
    return fault_is_due() ? NULL : realloc(old, size);
}

char *memory_copy_text(const char *text, size_t length)
{
    char *copy = memory_zeroed(length + 1, 1);

    if (copy != NULL) memcpy(copy, text, length);
    return copy;
}
