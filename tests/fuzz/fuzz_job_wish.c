/* The message of a scheduler's job: what is accepted is within its bounds, and can be written and read again. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "runner/jobs/wish.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer OWNED_BUFFER devices = BUFFER(1024), line = BUFFER(WISH_MAX);
    struct job_wish wish, again;
    struct error err = {0};
    char attempt[16];

    if (!job_wish_read((struct bytes){data, size}, &wish, &err).ok) return 0;
    assert(strlen(wish.run) == UUID_TEXT_SIZE - 1 && wish.attempt >= 1 && wish.attempt <= 100 &&
           wish.device_count <= DEVICES_MAX);
    for (size_t i = 0; i < wish.device_count; i++)
        assert(job_wish_allows(&wish, wish.minors[i]) &&
               buffer_format(&devices, &err, "%s%u", i == 0 ? "" : ",", wish.minors[i]).ok);
    (void)snprintf(attempt, sizeof attempt, "%d", wish.attempt);
    assert(job_wish_write(wish.run, attempt, wish.names_devices ? buffer_text(&devices) : NULL, &line, &err).ok);
    assert(job_wish_read(buffer_bytes(&line), &again, &err).ok && again.device_count == wish.device_count);
    return 0;
}
