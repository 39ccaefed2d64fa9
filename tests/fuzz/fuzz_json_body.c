/* Bodies of /api/v1: whatever is read has one canonical spelling, which reads as the same value again. */
#include <assert.h>
#include <string.h>

#include "base/json.h"
#include "policy/label.h"

#define BODY_MAX 65536 /* as the routes have it */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer OWNED_BUFFER once = BUFFER(8 * BODY_MAX);
    struct buffer OWNED_BUFFER twice = BUFFER(8 * BODY_MAX);
    OWNED_JSON value = NULL;
    OWNED_JSON again = NULL;
    struct error err = {0};
    struct label label;
    bool is_stated = false;

    if (!json_read((struct bytes){data, size}, BODY_MAX, &value, &err).ok) {
        assert(value == NULL && err.kind != ERROR_NONE && err.message[0] != '\0');
        return 0;
    }
    if (json_is_object(value) && !label_read_floor(value, &label, &is_stated, &err).ok)
        assert(err.kind == ERROR_INVALID || err.kind == ERROR_LIMIT);
    if (json_write_canonical(&once, value, &err).ok) {
        assert(json_read(buffer_bytes(&once), 8 * BODY_MAX, &again, &err).ok);
        assert(json_equal(value, again) && json_write_canonical(&twice, again, &err).ok);
        assert(bytes_equal(buffer_bytes(&once), buffer_bytes(&twice)));
    }
    return 0;
}
