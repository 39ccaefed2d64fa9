/* A request of the gateway of another region that is read is written again to the byte. */
#include <assert.h>
#include <string.h>

#include "registry/copies/copy_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[2 * COPY_REQUEST_SIZE] = "", again[COPY_REQUEST_SIZE];
    struct copy_request request;

    if (size >= sizeof text || memchr(data, 0, size) != NULL) return 0;
    if (size > 0) memcpy(text, data, size);
    if (!copy_request_read(text, &request)) return 0;
    copy_request_write(&request, again);
    assert(strcmp(text, again) == 0);
    assert(request.epoch <= INT64_MAX && strchr(request.to, '/') != NULL);
    return 0;
}
