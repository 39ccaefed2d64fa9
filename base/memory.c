#include "base/memory.h"

#include <malloc.h>
#include <string.h>

#include "base/fault.h"
#include "base/owned.h"

enum {
    /* The memory of a body's stream is larger. A block of a body, and libmicrohttpd's block for an answer, are smaller. */
    LARGE = 320 << 10,
    TOP_KEPT = 1 << 20, /* of each heap, so the next request needs no fresh memory from the kernel */
};

NO_LEAK_BEGIN /* gcc inlines it into memory_copy_text(), whose caller frees the memory */
    void *
    memory_zeroed(size_t count, size_t size)
{
    if (fault_is_due(FAULT_MEMORY)) return NULL;
    return calloc(count, size);
}
NO_LEAK_END

void *memory_resize(void *old, size_t size)
{
    return fault_is_due(FAULT_MEMORY) ? NULL : realloc(old, size);
}

void memory_give_back_large(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, LARGE);
    (void)mallopt(M_TRIM_THRESHOLD, TOP_KEPT);
}

void memory_give_back_free(void)
{
    (void)malloc_trim(TOP_KEPT);
}

char *memory_copy_text(const char *text, size_t length)
{
    char *copy = memory_zeroed(length + 1, 1);

    if (copy == NULL) return NULL;
    memcpy(copy, text, length);
    return copy;
}
