/* The statements between the main sijil-keyd and that of a region, from anybody. */
#include <assert.h>
#include <string.h>

#include "crypto/keyd_region.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compare(const struct buffer *again, const uint8_t *data, size_t size)
{
    assert(again->length == size && memcmp(again->data, data, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bytes input = {data, size};
    struct keyd_current current;
    struct keyd_place place;
    struct error err = {0};

    if (keyd_current_read(input, &current, &err).ok) {
        struct buffer OWNED_BUFFER again = BUFFER(4096);
        assert(keyd_current_write(&current, &again, &err).ok);
        compare(&again, data, size);
    }
    if (keyd_place_read(input, &place, &err).ok) {
        struct buffer OWNED_BUFFER again = BUFFER(4096);
        assert(keyd_place_write(&place, &again, &err).ok);
        compare(&again, data, size);
    }
    return 0;
}
