/* An answer of a witness that is accepted has a cosignature of the checkpoint; the line that is kept proves it again, alone. */
#include <assert.h>
#include <string.h>

#include "audit/format/witness_answer.h"
#include "audit/format/witness_policy.h"

#define CHECKPOINT                                                                                              \
    "sijil.example/audit\n8\nXcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQyg=\n\n\xe2\x80\x94 sijil.example/audit " \
    "1YnYQ7gXlAQYz2wiPL0qLiENl9YIAKRa7cM9aqXP2rc1LV76Y9S21qXCwVlbsL7m4cr9CjweJvPy5iO4kSvLgD376QU=\n"
#define WITNESS "witness.example/w1+20324abe+BCmsuuFBvMrwsi4alNNNC8c2HlJtC/4SyJeUvJMilm3X"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer OWNED_BUFFER line = BUFFER(COSIGNATURE_LINE_MAX), again = BUFFER(COSIGNATURE_LINE_MAX);
    uint64_t time_s = 0, time_again_s = 0;
    struct note_key key;
    struct error err;

    if (!note_key_read(bytes_of_text(WITNESS), &key, &err).ok) return 0;
    if (!witness_answer_read(bytes_of_text(CHECKPOINT), (struct bytes){data, size}, &key, &line, &time_s, &err).ok) {
        assert(err.kind == ERROR_DENIED || err.kind == ERROR_NO_MEMORY);
        return 0;
    }
    const struct result kept =
        witness_answer_read(bytes_of_text(CHECKPOINT), buffer_bytes(&line), &key, &again, &time_again_s, &err);
    assert(kept.ok && time_again_s > 0 && bytes_equal(buffer_bytes(&line), buffer_bytes(&again)));
    return 0;
}
