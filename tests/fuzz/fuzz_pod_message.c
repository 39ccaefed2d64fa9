/* A message of a pod's other side: its texts lie in it, one after the other, and end with it. */
#include <assert.h>
#include <string.h>

#include "runner/pod/pod.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct pod_message message;
    struct error err = {0};

    if (size > sizeof message.bytes) return 0;
    if (size > 0) memcpy(message.bytes, data, size);
    if (!pod_split(&message, size, &err).ok) return 0;
    assert(message.count > 0 && message.count <= POD_TEXTS_MAX && message.texts[message.count] == NULL);
    const char *next = message.bytes;
    for (size_t i = 0; i < message.count; i++) {
        assert(message.texts[i] == next);
        next += strlen(next) + 1;
    }
    assert(next == message.bytes + size);
    (void)pod_is(&message, "ended", 3);
    return 0;
}
