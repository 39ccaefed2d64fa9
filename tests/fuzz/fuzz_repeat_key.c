/* The header Idempotency-Key: an accepted key is a part of the header, of the letters that a key has, and quotes around it change nothing. */
#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "gateway/pipeline/repeat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED_STRING text = memory_copy_text((const char *)data, size);
    char quoted[REPEAT_KEY_MAX + 3];
    struct bytes key = {0}, again = {0};
    struct error err = {0};

    if (text == NULL || !repeat_key_read(text, &key, &err).ok) return 0;
    assert(key.length >= 1 && key.length <= REPEAT_KEY_MAX);
    assert((const char *)key.data >= text && (const char *)key.data + key.length <= text + strlen(text));
    for (size_t i = 0; i < key.length; i++) assert(key.data[i] > ' ' && key.data[i] < 0x7f && key.data[i] != '"');
    quoted[0] = '"';
    memcpy(quoted + 1, key.data, key.length);
    memcpy(quoted + 1 + key.length, "\"", 2);
    assert(repeat_key_read(quoted, &again, &err).ok && bytes_equal(again, key));
    return 0;
}
