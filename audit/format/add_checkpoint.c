#include "audit/format/add_checkpoint.h"

#include <string.h>

#include "audit/format/text_rules_priv.h"
#include "base/text.h"

#define OLD "old "

struct result add_checkpoint_write(const struct add_checkpoint *request, struct buffer *body, struct error *err)
{
    TRY(buffer_format(body, err, OLD "%llu\n", (unsigned long long)request->old_size));
    for (size_t i = 0; i < request->proof.count; i++) {
        TRY(text_base64(body, BASE64_STANDARD, (struct bytes){request->proof.hashes[i].bytes, MERKLE_HASH_SIZE}, err));
        TRY(buffer_add_u8(body, '\n', err));
    }
    TRY(buffer_add_u8(body, '\n', err));
    return buffer_add(body, request->note.data, request->note.length, err);
}

static bool read_old(struct bytes line, uint64_t *size_out)
{
    const size_t length = strlen(OLD);

    if (line.length <= length || memcmp(line.data, OLD, length) != 0) return false;
    return text_to_u64((struct bytes){line.data + length, line.length - length}, MERKLE_SIZE_MAX, size_out);
}

struct result add_checkpoint_read(struct bytes body, struct add_checkpoint *request_out, struct error *err)
{
    struct add_checkpoint request = {0};
    struct bytes line;

    if (body.length > ADD_CHECKPOINT_MAX) return failure(err, ERROR_LIMIT, "a body of more than %d bytes", ADD_CHECKPOINT_MAX);
    if (!next_line(&body, &line) || !read_old(line, &request.old_size))
        return failure(err, ERROR_INVALID, "the first line is not \"old\" and the size of a log");
    for (;;) {
        if (!next_line(&body, &line)) return failure(err, ERROR_INVALID, "the body ends before its checkpoint");
        if (line.length == 0) break;
        if (request.proof.count == MERKLE_PROOF_MAX)
            return failure(err, ERROR_INVALID, "a proof with more than %d hashes", MERKLE_PROOF_MAX);
        if (!text_from_base64_exactly(BASE64_STANDARD, line, request.proof.hashes[request.proof.count].bytes, MERKLE_HASH_SIZE))
            return failure(err, ERROR_INVALID, "line %zu of the proof is not a hash of 32 bytes", request.proof.count + 1);
        request.proof.count++;
    }
    request.note = body;
    *request_out = request;
    return SUCCESS;
}
