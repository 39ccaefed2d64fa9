/* Messages of sijil-keyd, as keyd and as its clients read them. An accepted message is written again byte for byte. */
#include <assert.h>
#include <string.h>

#include "crypto/keyd_protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compare(const struct buffer *frame, const uint8_t *data, size_t size)
{
    assert(frame->length == size && memcmp(frame->data, data, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct keyd_request request;
    struct keyd_reply reply;
    struct error err = {0};

    if (keyd_request_read((struct bytes){data, size}, &request, &err).ok) {
        struct buffer OWNED_BUFFER frame = BUFFER(KEYD_MESSAGE_LARGE);
        assert(keyd_request_write(&frame, &request, &err).ok);
        compare(&frame, data, size);
    }
    if (keyd_reply_read((struct bytes){data, size}, &reply, &err).ok) {
        struct buffer OWNED_BUFFER frame = BUFFER(KEYD_MESSAGE_LARGE);
        assert(keyd_reply_write(&frame, &reply, &err).ok);
        compare(&frame, data, size);
    }
    return 0;
}
