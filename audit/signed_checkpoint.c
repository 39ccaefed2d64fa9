#include "audit/signed_checkpoint.h"

#include <string.h>

#include "audit/format/checkpoint.h"
#include "base/memory.h"

static struct result read_text(const struct note_key *key, struct bytes text, struct checkpoint *checkpoint_out,
                               struct error *err)
{
    struct checkpoint checkpoint;

    if (!checkpoint_read(text, &checkpoint, err).ok) return failure(err, ERROR_DENIED, "the note is no checkpoint");
    if (strcmp(checkpoint.origin, key->name) != 0)
        return failure(err, ERROR_DENIED, "the checkpoint is of the log \"%.60s\"", checkpoint.origin);
    *checkpoint_out = checkpoint;
    return SUCCESS;
}

static struct result read_note(const struct note_key *key, struct bytes bytes, struct note *note,
                               struct checkpoint *checkpoint_out, struct error *err)
{
    if (!note_read(bytes, note, err).ok) return failure(err, ERROR_DENIED, "it is no signed note");
    if (!note_verify(note, key, NULL, err).ok)
        return failure(err, ERROR_DENIED, "the key of the log did not sign the checkpoint");
    return read_text(key, note->text, checkpoint_out, err);
}

struct result signed_checkpoint_read(const struct note_key *key, struct bytes bytes, struct signed_checkpoint *checkpoint_out,
                                     struct error *err)
{
    struct signed_checkpoint result = {0};
    struct checkpoint checkpoint;
    struct note *note = NULL;

    if (bytes.length >= sizeof result.note) return failure(err, ERROR_DENIED, "the note is longer than those of sijil-keyd");
    note = memory_zeroed(1, sizeof *note); /* too large for the stack: the list of signatures is long */
    if (note == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a checkpoint");
    const struct result read = read_note(key, bytes, note, &checkpoint, err);
    free(note);
    TRY(read);
    result.size = checkpoint.size;
    result.root = checkpoint.root;
    memcpy(result.note, bytes.data, bytes.length);
    *checkpoint_out = result;
    return SUCCESS;
}
