/* Messages to and about the sijil-keyd of a region: their fields. */
#include "crypto/keyd_protocol_priv.h"

struct result keyd_write_place_asked(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    return buffer_add(frame, request->as.nonce, sizeof request->as.nonce, err);
}

void keyd_read_place_asked(struct reader *fields, struct keyd_request *request)
{
    keyd_read_fixed(fields, request->as.nonce, sizeof request->as.nonce);
}

struct result keyd_write_place(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    TRY(buffer_add(frame, reply->as.place.key, sizeof reply->as.place.key, err));
    return buffer_add_prefixed(frame, reply->as.place.envelope, err);
}

void keyd_read_place(struct reader *fields, struct keyd_reply *reply)
{
    keyd_read_fixed(fields, reply->as.place.key, sizeof reply->as.place.key);
    reply->as.place.envelope = reader_prefixed(fields, KEYD_ENVELOPE_MAX);
}

struct result keyd_write_current_handed(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    const struct bytes envelope = request->as.current;

    if (envelope.length == 0 || envelope.length > KEYD_ENVELOPE_MAX)
        return failure(err, ERROR_INVALID, "a statement has 1 to %d bytes", KEYD_ENVELOPE_MAX);
    return buffer_add_prefixed(frame, envelope, err);
}

void keyd_read_current_handed(struct reader *fields, struct keyd_request *request)
{
    request->as.current = reader_prefixed(fields, KEYD_ENVELOPE_MAX);
    if (request->as.current.length == 0) fields->failed = true;
}
