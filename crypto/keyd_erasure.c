/* The fields of the message that asks for a certificate of erasure. */
#include "crypto/keyd_protocol_priv.h"

struct result keyd_write_erasure(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    const struct keyd_erasure *erasure = &request->as.erasure;

    if (erasure->pseudonym.length == 0 || erasure->pseudonym.length > KEYD_NAME_MAX)
        return failure(err, ERROR_INVALID, "a pseudonym has 1 to %d bytes", KEYD_NAME_MAX);
    TRY(buffer_add_prefixed(frame, erasure->pseudonym, err));
    TRY(buffer_add_u64(frame, erasure->asked, err));
    TRY(buffer_add(frame, erasure->asked_hash, sizeof erasure->asked_hash, err));
    TRY(buffer_add_u64(frame, erasure->done, err));
    TRY(buffer_add(frame, erasure->done_hash, sizeof erasure->done_hash, err));
    TRY(buffer_add_u64(frame, erasure->payloads, err));
    TRY(buffer_add_u64(frame, (uint64_t)erasure->erased_ms, err));
    return buffer_add_u32(frame, erasure->key_version, err);
}

void keyd_read_erasure(struct reader *fields, struct keyd_request *request)
{
    struct keyd_erasure *erasure = &request->as.erasure;

    erasure->pseudonym = reader_prefixed(fields, KEYD_NAME_MAX);
    if (erasure->pseudonym.length == 0) fields->failed = true;
    erasure->asked = reader_u64(fields);
    keyd_read_fixed(fields, erasure->asked_hash, sizeof erasure->asked_hash);
    erasure->done = reader_u64(fields);
    keyd_read_fixed(fields, erasure->done_hash, sizeof erasure->done_hash);
    erasure->payloads = reader_u64(fields);
    erasure->erased_ms = (int64_t)reader_u64(fields);
    erasure->key_version = reader_u32(fields);
}
