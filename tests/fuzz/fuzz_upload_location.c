/* The last segment of an upload's Location: there is one spelling of each session. */
#include <assert.h>
#include <string.h>

#include "registry/names/reference.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct upload_location location;
    char text[UPLOAD_LOCATION_SIZE];

    if (!upload_location_parse((struct bytes){data, size}, &location)) return 0;
    upload_location_format(&location, text);
    assert(strlen(text) == size && memcmp(text, data, size) == 0);
    return 0;
}
