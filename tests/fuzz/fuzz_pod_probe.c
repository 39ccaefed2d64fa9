/* What a program of the payload's image prints as its devices: the texts lie in what was read, and there are no more of them than have room. */
#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "runner/pod/probe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_texts(const struct probe *probe)
{
    assert(probe->count <= PROBE_TEXTS_MAX);
    for (size_t i = 0; i < probe->count; i++) assert(probe->texts[i] != NULL && strlen(probe->texts[i]) < PROBE_SIZE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct probe probe;
    int ends[2];

    if (size > 32768 || pipe(ends) != 0) return 0; /* what a pipe holds */
    assert(write(ends[1], data, size) == (ssize_t)size);
    (void)close(ends[1]);
    memset(&probe, 0, sizeof probe);
    probe.output = ends[0];
    probe_await_devices(&probe);
    check_texts(&probe);
    for (unsigned i = 0; i < 4 && probe.output >= 0; i++)
        if (probe_hear_use(&probe)) check_texts(&probe);
    if (probe.output >= 0) (void)close(probe.output);
    return 0;
}
