/* A mountinfo whose names an image has chosen: what is said of it is one text, and what may not be written to is open nowhere. */
#include <assert.h>
#include <string.h>

#include "runner/pod/mounts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *open = mounts_open_in((struct bytes){data, size}, "/gate");

    if (size == 0) assert(open == NULL);
    if (open == NULL) return 0;
    assert(strlen(open) > 0 && strlen(open) < 600);
    return 0;
}
