#include "base/memory.h"

#include <string.h>

#include "base/fault.h"
#include "base/owned.h"

NO_LEAK_BEGIN /* where it is inlined into memory_copy_text(), whose caller frees it */
void *memory_zeroed(size_t count, size_t size)
{
    if (fault_is_due(FAULT_MEMORY)) return NULL;
    return calloc(count, size);
}
NO_LEAK_END

void *memory_resize(void *old, size_t size)
{
    return fault_is_due(FAULT_MEMORY) ? NULL : realloc(old, size);
}

char *memory_copy_text(const char *text, size_t length)
{
    char *copy = memory_zeroed(length + 1, 1);

    if (copy == NULL) return NULL;
    memcpy(copy, text, length);
    return copy;
}
