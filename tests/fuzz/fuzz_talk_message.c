/* The content of a message between a pod's agent and its runner: its texts lie in it, and end with it. A path that is safe stays below its folder. */
#include <assert.h>
#include <string.h>

#include "runner/talk/talk_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_path(const char *path)
{
    if (!talk_path_is_safe(path)) return;
    assert(path[0] != '/' && path[0] != '\0' && path[strlen(path) - 1] != '/');
    assert(strstr(path, "//") == NULL && strstr(path, "/../") == NULL && strncmp(path, "../", 3) != 0 && strcmp(path, "..") != 0);
    const size_t length = strlen(path);
    assert(length < 3 || strcmp(path + length - 3, "/..") != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct talk_message message;
    struct error err = {0};

    if (size > TALK_MESSAGE_MAX) return 0;
    message.content = BUFFER(TALK_MESSAGE_MAX);
    if (!buffer_add(&message.content, data, size, &err).ok) return 0;
    if (talk_texts(&message, 0, &err).ok) {
        const char *next = (const char *)message.content.data;
        assert(message.count <= TALK_TEXTS_MAX && message.texts[message.count] == NULL);
        for (size_t i = 0; i < message.count; i++) {
            assert(message.texts[i] == next);
            check_path(next);
            next += strlen(next) + 1;
        }
        assert(size == 0 || next == (const char *)message.content.data + size);
    }
    buffer_done(&message.content);
    return 0;
}
