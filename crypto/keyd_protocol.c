#include "crypto/keyd_protocol.h"

#include <string.h>

#include "crypto/keyd_protocol_priv.h"

bool keyd_type_is_large(uint8_t type)
{
    return type == KEYD_PIN_POLICY || type == KEYD_PIN_SET || type == KEYD_RUN_ORDER || type == KEYD_RUN_LEASE ||
           type == KEYD_RUN_ADMISSION || type == KEYD_SHOW_SET;
}

struct result keyd_frame_begin(struct buffer *frame, enum keyd_type type, uint64_t id, struct error *err)
{
    TRY(buffer_add_u32(frame, 0, err));
    TRY(buffer_add_u8(frame, KEYD_PROTOCOL_VERSION, err));
    TRY(buffer_add_u8(frame, (uint8_t)type, err));
    return buffer_add_u64(frame, id, err);
}

struct result keyd_frame_end(struct buffer *frame, struct error *err)
{
    const bool large = keyd_type_is_large(frame->data[5]);

    if (frame->length > (large ? KEYD_MESSAGE_LARGE : KEYD_MESSAGE_MAX))
        return failure(err, ERROR_LIMIT, "a message of %zu bytes for sijil-keyd is too large", frame->length);
    store_u32(frame->data, (uint32_t)(frame->length - 4));
    return SUCCESS;
}

struct result keyd_frame_open(struct bytes message, uint8_t *type_out, uint64_t *id_out, struct reader *fields_out,
                              struct error *err)
{
    struct reader fields = reader_of(message);

    const uint32_t length = reader_u32(&fields);
    const uint8_t version = reader_u8(&fields), type = reader_u8(&fields);
    const uint64_t id = reader_u64(&fields);
    if (fields.failed || length != message.length - 4)
        return failure(err, ERROR_INVALID, "a message of sijil-keyd with a wrong length");
    if (version != KEYD_PROTOCOL_VERSION)
        return failure(err, ERROR_INVALID, "version %u of the protocol of sijil-keyd is not known here", version);
    *type_out = type;
    *id_out = id;
    *fields_out = fields;
    return SUCCESS;
}

struct result keyd_write_wrapped(struct buffer *frame, const struct wrapped_key *wrapped, struct error *err)
{
    if (wrapped->length > WRAPPED_KEY_MAX)
        return failure(err, ERROR_INVALID, "a wrapped key has at most %d bytes", WRAPPED_KEY_MAX);
    TRY(buffer_add_u32(frame, wrapped->version, err));
    return buffer_add_prefixed(frame, (struct bytes){wrapped->bytes, wrapped->length}, err);
}

void keyd_read_wrapped(struct reader *fields, struct wrapped_key *wrapped)
{
    wrapped->version = reader_u32(fields);
    const struct bytes raw = reader_prefixed(fields, WRAPPED_KEY_MAX);
    if (fields->failed) return;
    wrapped->length = raw.length;
    if (raw.length > 0) memcpy(wrapped->bytes, raw.data, raw.length);
}

void keyd_read_fixed(struct reader *fields, uint8_t *out, size_t length)
{
    const struct bytes raw = reader_take(fields, length);

    if (!fields->failed) memcpy(out, raw.data, length);
}

bool keyd_read_flag(struct reader *fields)
{
    const uint8_t flag = reader_u8(fields);

    if (flag > 1) fields->failed = true;
    return flag == 1;
}

void keyd_read_text(struct reader *fields, char *out, size_t maximum)
{
    const struct bytes raw = reader_prefixed(fields, maximum);

    if (fields->failed || raw.length == 0 || memchr(raw.data, '\0', raw.length) != NULL) {
        fields->failed = true;
        return;
    }
    memcpy(out, raw.data, raw.length);
    out[raw.length] = '\0';
}

/* Refuses, with a message, each request that the decoder would refuse: keyd would only end the connection. */
struct result keyd_write_name(struct buffer *frame, struct bytes name, size_t minimum, const char *what, struct error *err)
{
    if (name.length < minimum || name.length > KEYD_NAME_MAX)
        return failure(err, ERROR_INVALID, "%s must have %zu to %d bytes", what, minimum, KEYD_NAME_MAX);
    return buffer_add_prefixed(frame, name, err);
}

struct bytes keyd_read_name(struct reader *fields)
{
    const struct bytes name = reader_prefixed(fields, KEYD_NAME_MAX);

    if (name.length == 0) fields->failed = true;
    return name;
}
