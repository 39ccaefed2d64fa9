#include "base/bytes.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

struct bytes bytes_of_text(const char *text)
{
    return (struct bytes){.data = (const uint8_t *)text, .length = strlen(text)};
}

bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}

struct result buffer_reserve(struct buffer *buffer, size_t length, uint8_t **destination_out, struct error *err)
{
    assert(buffer->maximum > 0 && buffer->length <= buffer->maximum);
    if (length > buffer->maximum - buffer->length)
        return failure(err, ERROR_LIMIT, "more than the %zu bytes that fit here", buffer->maximum);

    const size_t wanted = buffer->length + length + 1;
    if (wanted > buffer->capacity) {
        size_t capacity = buffer->capacity < 64 ? 64 : buffer->capacity;
        while (capacity < wanted) capacity *= 2;
        if (capacity > buffer->maximum + 1) capacity = buffer->maximum + 1;
        uint8_t *grown = memory_resize(buffer->data, capacity);
        if (grown == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for %zu bytes", capacity);
        buffer->data = grown;
        buffer->capacity = capacity;
    }
    buffer->data[wanted - 1] = '\0';
    *destination_out = buffer->data + buffer->length;
    return SUCCESS;
}

struct result buffer_add(struct buffer *buffer, const void *data, size_t length, struct error *err)
{
    uint8_t *destination = NULL;

    TRY(buffer_reserve(buffer, length, &destination, err));
    if (length > 0) memcpy(destination, data, length);
    buffer->length += length;
    return SUCCESS;
}

struct result buffer_add_text(struct buffer *buffer, const char *text, struct error *err)
{
    return buffer_add(buffer, text, strlen(text), err);
}

struct result buffer_format(struct buffer *buffer, struct error *err, const char *format, ...)
{
    va_list args, again;
    uint8_t *destination = NULL;

    va_start(args, format);
    va_copy(again, args);
    const size_t there = buffer->capacity - buffer->length; /* enough in most calls */
    const int length = vsnprintf(there == 0 ? NULL : (char *)buffer->data + buffer->length, there, format, args);
    va_end(args);
    assert(length >= 0);

    const struct result room = buffer_reserve(buffer, (size_t)length, &destination, err);
    if (room.ok && (size_t)length >= there) (void)vsnprintf((char *)destination, (size_t)length + 1, format, again);
    if (room.ok) buffer->length += (size_t)length;
    else if (there > 0) buffer->data[buffer->length] = '\0';
    va_end(again);
    return room;
}

struct result buffer_add_u8(struct buffer *buffer, uint8_t value, struct error *err)
{
    return buffer_add(buffer, &value, 1, err);
}

struct result buffer_add_u16(struct buffer *buffer, uint16_t value, struct error *err)
{
    uint8_t raw[2];

    store_u16(raw, value);
    return buffer_add(buffer, raw, sizeof raw, err);
}

struct result buffer_add_u32(struct buffer *buffer, uint32_t value, struct error *err)
{
    uint8_t raw[4];

    store_u32(raw, value);
    return buffer_add(buffer, raw, sizeof raw, err);
}

struct result buffer_add_u64(struct buffer *buffer, uint64_t value, struct error *err)
{
    uint8_t raw[8];

    store_u64(raw, value);
    return buffer_add(buffer, raw, sizeof raw, err);
}

struct result buffer_add_prefixed(struct buffer *buffer, struct bytes bytes, struct error *err)
{
    if (bytes.length > UINT32_MAX) return failure(err, ERROR_LIMIT, "a field of %zu bytes", bytes.length);
    TRY(buffer_add_u32(buffer, (uint32_t)bytes.length, err));
    return buffer_add(buffer, bytes.data, bytes.length, err);
}

struct bytes buffer_bytes(const struct buffer *buffer)
{
    return (struct bytes){.data = buffer->data, .length = buffer->length};
}

const char *buffer_text(const struct buffer *buffer)
{
    return buffer->data == NULL ? "" : (const char *)buffer->data;
}

void buffer_clear(struct buffer *buffer)
{
    buffer_truncate(buffer, 0);
}

void buffer_truncate(struct buffer *buffer, size_t length)
{
    assert(length <= buffer->length);
    buffer->length = length;
    if (buffer->data != NULL) buffer->data[length] = '\0';
}

void buffer_done(struct buffer *buffer)
{
    free(buffer->data);
    buffer->data = NULL;
    buffer->length = buffer->capacity = 0;
}

struct reader reader_of(struct bytes bytes)
{
    return (struct reader){.left = bytes};
}

struct bytes reader_take(struct reader *reader, size_t length)
{
    if (reader->failed || length > reader->left.length) {
        reader->failed = true;
        return (struct bytes){0};
    }
    const struct bytes taken = {.data = reader->left.data, .length = length};
    if (length > 0) reader->left.data += length;
    reader->left.length -= length;
    return taken;
}

uint8_t reader_u8(struct reader *reader)
{
    const struct bytes raw = reader_take(reader, 1);
    return raw.length == 1 ? raw.data[0] : 0;
}

uint16_t reader_u16(struct reader *reader)
{
    const struct bytes raw = reader_take(reader, 2);
    return raw.length == 2 ? load_u16(raw.data) : 0;
}

uint32_t reader_u32(struct reader *reader)
{
    const struct bytes raw = reader_take(reader, 4);
    return raw.length == 4 ? load_u32(raw.data) : 0;
}

uint64_t reader_u64(struct reader *reader)
{
    const struct bytes raw = reader_take(reader, 8);
    return raw.length == 8 ? load_u64(raw.data) : 0;
}

struct bytes reader_prefixed(struct reader *reader, size_t maximum)
{
    const uint32_t length = reader_u32(reader);

    if (length > maximum) reader->failed = true;
    return reader_take(reader, length);
}

bool reader_is_done(const struct reader *reader)
{
    return !reader->failed && reader->left.length == 0;
}

void store_u16(uint8_t *bytes, uint16_t value)
{
    bytes[0] = (uint8_t)(value >> 8);
    bytes[1] = (uint8_t)value;
}

void store_u32(uint8_t *bytes, uint32_t value)
{
    store_u16(bytes, (uint16_t)(value >> 16));
    store_u16(bytes + 2, (uint16_t)value);
}

void store_u64(uint8_t *bytes, uint64_t value)
{
    store_u32(bytes, (uint32_t)(value >> 32));
    store_u32(bytes + 4, (uint32_t)value);
}

uint16_t load_u16(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

uint32_t load_u32(const uint8_t *bytes)
{
    return (uint32_t)load_u16(bytes) << 16 | load_u16(bytes + 2);
}

uint64_t load_u64(const uint8_t *bytes)
{
    return (uint64_t)load_u32(bytes) << 32 | load_u32(bytes + 4);
}
