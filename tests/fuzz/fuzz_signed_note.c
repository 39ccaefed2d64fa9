/* An accepted note can be verified without harm; an accepted key is written again byte for byte. */
#include <assert.h>

#include "audit/format/note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char vkey[] = "sijil.example/audit+d589d843+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4";
    static struct note note;
    struct buffer OWNED_BUFFER again = BUFFER(1024);
    struct note_key key;
    struct error err;
    uint64_t time_s = 0;

    if (note_key_read((struct bytes){data, size}, &key, &err).ok) {
        assert(note_key_write(&key, &again, &err).ok);
        assert(bytes_equal(buffer_bytes(&again), (struct bytes){data, size}));
    }
    if (!note_read((struct bytes){data, size}, &note, &err).ok) return 0;
    assert(note.text.length < size && note.count > 0);
    assert(note_key_read(bytes_of_text(vkey), &key, &err).ok);
    (void)note_verify(&note, &key, &time_s, &err).ok;
    return 0;
}
