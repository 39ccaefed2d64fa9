/* Footers, and trailers after decryption: what is accepted obeys the rules, and formats to the same bytes. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "storage/sjb1_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_rules(const struct sjb1_trailer *trailer)
{
    assert(trailer->records == sjb1_record_count(trailer->length));
    assert(trailer->extents.count >= 1 && trailer->extents.list[0].first == 0);
    assert(trailer->extents.list[trailer->extents.count - 1].first < trailer->records);
    for (size_t i = 1; i < trailer->extents.count; i++) {
        assert(trailer->extents.list[i - 1].first < trailer->extents.list[i].first);
        assert(trailer->extents.list[i - 1].part < trailer->extents.list[i].part);
    }
}

/* Any bytes in the place of a sealed trailer fail, and leave nothing to release. */
static void open_as_sealed(const uint8_t *data, size_t size)
{
    static const uint8_t key[SJB1_KEY_SIZE];
    struct buffer OWNED_BUFFER copy = BUFFER(SJB1_TRAILER_MAX);
    struct sjb1_trailer trailer;
    struct error err;

    if (size < SJB1_TRAILER_MIN || !buffer_add(&copy, data, size, &err).ok) return;
    if (sjb1_trailer_open(copy.data, copy.length, key, &trailer, &err).ok) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer OWNED_BUFFER again = BUFFER(SJB1_TRAILER_MAX);
    struct sjb1_trailer trailer;
    struct error err;
    uint32_t length = 0;

    if (size >= SJB1_FOOTER_SIZE && sjb1_footer_parse(data + size - SJB1_FOOTER_SIZE, &length, &err).ok)
        assert(length >= SJB1_TRAILER_MIN && length <= SJB1_TRAILER_MAX);
    open_as_sealed(data, size);
    if (!sjb1_trailer_parse((struct bytes){data, size}, &trailer, &err).ok) return 0;
    check_rules(&trailer);
    if (!sjb1_trailer_format(&trailer, &again, &err).ok) abort();
    assert(again.length == size && memcmp(again.data, data, size) == 0);
    sjb1_trailer_done(&trailer);
    return 0;
}
