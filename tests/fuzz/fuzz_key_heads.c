/* An accepted statement about the heads of keys is written again byte for byte; a note with one is checked without harm. */
#include <assert.h>

#include "audit/format/heads.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char vkey[] = "witness.example/w1+20324abe+BCmsuuFBvMrwsi4alNNNC8c2HlJtC/4SyJeUvJMilm3X";
    const struct heads_evidence evidence = {bytes_of_text(vkey), {data, size}, {{data, size}, {data, size}}};
    const struct checkpoint checkpoint = {.origin = "sijil.example/audit", .size = 8};
    struct buffer OWNED_BUFFER again = BUFFER(HEADS_NOTE_MAX);
    struct heads_report report;
    struct heads heads;
    struct error err;

    if (heads_read((struct bytes){data, size}, &heads, &err).ok) {
        assert(heads_write(&heads, &again, &err).ok);
        assert(bytes_equal(buffer_bytes(&again), (struct bytes){data, size}));
    }
    (void)heads_check(&evidence, &checkpoint, 3, &report, &err).ok;
    return 0;
}
