/* The label that a manifest states: an accepted one is written back as the same bytes, and joined with another it is at least as strict as each. */
#include <assert.h>

#include "policy/label_annotation.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void join(const struct label *stated)
{
    static const struct label other = {
        .class = LABEL_CONFIDENTIAL, .lineage = LINEAGE_DECLARED, .subjects = 4, .pin_count = 1, .pins = {"p"}};
    struct label joined = *stated;
    struct error err;

    if (!label_join(&joined, &other, &err).ok) return;
    assert(label_covers(&joined, stated) && label_covers(&joined, &other));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer OWNED_BUFFER text = BUFFER(LABEL_ANNOTATION_MAX);
    OWNED_JSON value = json_stringn((const char *)data, size);
    OWNED_STATED_LABEL stated = {.json = NULL};
    struct error err;

    if (value == NULL || !label_annotation_read(value, &stated, &err).ok) return 0;
    assert(size <= LABEL_ANNOTATION_MAX && label_write(&text, &stated.label, &err).ok);
    assert(bytes_equal(buffer_bytes(&text), (struct bytes){data, size}));
    join(&stated.label);
    return 0;
}
