#include "audit/signed_checkpoint.h"

#include <string.h>

#include "base/memory.h"

static struct result read_note(const struct log_keys *keys, struct bytes bytes, struct note *note,
                               struct checkpoint *checkpoint_out, struct error *err)
{
    struct error why = {0};

    if (!note_read(bytes, note, err).ok) return failure(err, ERROR_DENIED, "it is no signed note");
    if (log_keys_verify(keys, note, checkpoint_out, NULL, &why).ok) return SUCCESS;
    return failure(err, why.kind == ERROR_NO_MEMORY ? why.kind : ERROR_DENIED, "it is no checkpoint of the log: %.200s",
                   why.message);
}

struct result signed_checkpoint_read(const struct log_keys *keys, struct bytes bytes, struct signed_checkpoint *checkpoint_out,
                                     struct error *err)
{
    struct signed_checkpoint result = {0};
    struct checkpoint checkpoint;
    struct note *note = NULL;

    if (bytes.length >= sizeof result.note) return failure(err, ERROR_DENIED, "the note is longer than those of sijil-keyd");
    note = memory_zeroed(1, sizeof *note); /* too large for the stack: the list of signatures is long */
    if (note == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a checkpoint");
    const struct result read = read_note(keys, bytes, note, &checkpoint, err);
    free(note);
    TRY(read);
    result.size = checkpoint.size;
    result.root = checkpoint.root;
    memcpy(result.note, bytes.data, bytes.length);
    *checkpoint_out = result;
    return SUCCESS;
}
