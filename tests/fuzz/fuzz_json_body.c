/* Bodies of /api/v1: an accepted body has one canonical spelling, which is read as the same value. */
#include <assert.h>
#include <string.h>

#include "base/json.h"
#include "policy/label.h"

#define BODY_MAX 65536 /* as in the routes */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The lenient reader accepts every text that the strict one accepts. */
static void check_lenient(struct bytes text, const json_t *strict)
{
    OWNED_JSON lenient = NULL;
    struct error err = {0};

    const bool ok = json_read_any_number(text, BODY_MAX, &lenient, &err).ok;
    assert(ok == (lenient != NULL));
    assert(ok || (strict == NULL && err.kind != ERROR_NONE));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer OWNED_BUFFER once = BUFFER(8 * BODY_MAX);
    struct buffer OWNED_BUFFER twice = BUFFER(8 * BODY_MAX);
    OWNED_JSON value = NULL;
    OWNED_JSON again = NULL;
    struct error err = {0};
    struct label label;
    bool is_stated = false;

    const bool is_read = json_read((struct bytes){data, size}, BODY_MAX, &value, &err).ok;
    check_lenient((struct bytes){data, size}, value);
    if (!is_read) {
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
