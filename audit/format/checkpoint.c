#include "audit/format/checkpoint.h"

#include <string.h>

#include "audit/format/note.h"
#include "audit/format/text_rules_priv.h"
#include "base/text.h"

struct result checkpoint_write(const struct checkpoint *checkpoint, struct buffer *text, struct error *err)
{
    const struct bytes root = {checkpoint->root.bytes, MERKLE_HASH_SIZE};

    if (!note_name_is_valid(bytes_of_text(checkpoint->origin)))
        return failure(err, ERROR_INVALID, "the origin of a log is a name without spaces and '+', such as host/audit");
    if (checkpoint->size > MERKLE_SIZE_MAX) return failure(err, ERROR_INVALID, "no log is that large");
    TRY(buffer_format(text, err, "%s\n%llu\n", checkpoint->origin, (unsigned long long)checkpoint->size));
    TRY(text_base64(text, BASE64_STANDARD, root, err));
    return buffer_add_u8(text, '\n', err);
}

static bool read_origin(struct bytes line, struct checkpoint *checkpoint)
{
    if (line.length > CHECKPOINT_ORIGIN_MAX || !note_name_is_valid(line)) return false;
    memcpy(checkpoint->origin, line.data, line.length);
    return true;
}

static bool read_root(struct bytes line, struct checkpoint *checkpoint)
{
    return text_from_base64_exactly(BASE64_STANDARD, line, checkpoint->root.bytes, MERKLE_HASH_SIZE);
}

struct result checkpoint_read(struct bytes text, struct checkpoint *checkpoint_out, struct error *err)
{
    struct checkpoint checkpoint = {0};
    struct bytes line;

    if (text.length > CHECKPOINT_TEXT_MAX || !note_text_is_valid(text))
        return failure(err, ERROR_INVALID, "the checkpoint is too long, or is not text");
    if (!next_line(&text, &line) || !read_origin(line, &checkpoint))
        return failure(err, ERROR_INVALID, "the checkpoint's first line is not the origin of a log");
    if (!next_line(&text, &line) || !text_to_u64(line, MERKLE_SIZE_MAX, &checkpoint.size))
        return failure(err, ERROR_INVALID, "the checkpoint's second line is not the size of a log");
    if (!next_line(&text, &line) || !read_root(line, &checkpoint))
        return failure(err, ERROR_INVALID, "the checkpoint's third line is not the root of a log");
    while (next_line(&text, &line))
        if (line.length == 0) return failure(err, ERROR_INVALID, "the checkpoint has an empty line");
    *checkpoint_out = checkpoint;
    return SUCCESS;
}
