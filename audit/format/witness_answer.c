#include "audit/format/witness_answer.h"

#include <string.h>

#include "base/memory.h"

/* One line by the key, even if the witness has sent it twice. */
static struct result take_line(const struct note *note, const struct note_key *key, struct buffer *line, struct error *err)
{
    for (size_t i = 0; i < note->count; i++) {
        const struct note_signature *signature = &note->signatures[i];
        if (!bytes_equal(signature->name, bytes_of_text(key->name)) || memcmp(signature->id, key->id, NOTE_KEY_ID_SIZE) != 0)
            continue;
        return buffer_format(line, err, "\xe2\x80\x94 %s %.*s\n", key->name, (int)signature->base64.length,
                             (const char *)signature->base64.data);
    }
    return failure(err, ERROR_DENIED, "the answer has no cosignature by %.64s", key->name);
}

static struct result read_note(struct bytes whole, const struct note_key *key, struct buffer *line, uint64_t *time_s_out,
                               struct error *err)
{
    struct note *note = memory_zeroed(1, sizeof *note); /* too large for the stack: the list of signatures is long */
    uint64_t time_s = 0;
    struct error why = {0};

    if (note == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer of a witness");
    struct result result = note_read(whole, note, &why);
    if (!result.ok) result = failure(err, ERROR_DENIED, "the answer has no lines of signatures: %.150s", why.message);
    if (result.ok) result = note_verify(note, key, &time_s, err);
    if (result.ok) result = take_line(note, key, line, err);
    free(note);
    TRY(result);
    *time_s_out = time_s;
    return SUCCESS;
}

struct result witness_answer_read(struct bytes note, struct bytes answer, const struct note_key *key, struct buffer *line,
                                  uint64_t *time_s_out, struct error *err)
{
    struct buffer OWNED_BUFFER whole = BUFFER(NOTE_MAX);

    if (answer.length > WITNESS_ANSWER_BYTES_MAX)
        return failure(err, ERROR_DENIED, "the answer has more than %d bytes", WITNESS_ANSWER_BYTES_MAX);
    TRY(buffer_add(&whole, note.data, note.length, err));
    TRY(buffer_add(&whole, answer.data, answer.length, err));
    return read_note(buffer_bytes(&whole), key, line, time_s_out, err);
}
