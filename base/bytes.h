/*
 * base/bytes.h -- views of bytes, and buffers with a maximum.
 *
 * `struct bytes` borrows: it never owns what it points at. `struct buffer` owns, and every buffer has a maximum length.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/owned.h"
#include "base/result.h"

/** A borrowed view. A NULL `data` has length 0. */
struct bytes {
    const uint8_t *data;
    size_t length;
};

/** The bytes of a string without its final '\0'. */
struct bytes bytes_of_text(const char *text);
bool bytes_equal(struct bytes a, struct bytes b);

/** Growable. A '\0' always follows the bytes, and `length` does not count it. So text may be printed. A function that composes
 *  text appends piece by piece; when it fails, the buffer may hold a part of it, and must be freed or truncated. */
struct buffer {
    uint8_t *data;
    size_t length, capacity;
    size_t maximum; /* bytes; growing past it is ERROR_LIMIT */
};

/** An empty buffer; allocates nothing yet. */
#define BUFFER(maximum_bytes) ((struct buffer){.maximum = (maximum_bytes)})
/** `struct buffer OWNED_BUFFER text = BUFFER(4096);` is freed when it leaves scope. */
#define OWNED_BUFFER __attribute__((cleanup(buffer_done)))

/** Appends; ERROR_LIMIT past the maximum, ERROR_NO_MEMORY. The buffer is unchanged on failure. */
RESULT buffer_add(struct buffer *buffer, const void *data, size_t length, struct error *err);
RESULT buffer_add_text(struct buffer *buffer, const char *text, struct error *err);
RESULT buffer_format(struct buffer *buffer, struct error *err, const char *format, ...) __attribute__((format(printf, 3, 4)));
/** Makes room for `length` more bytes and returns a pointer to it; the caller raises `length`. */
RESULT buffer_reserve(struct buffer *buffer, size_t length, uint8_t **destination_out, struct error *err);

/** Big-endian integers: all our formats use them. */
RESULT buffer_add_u8(struct buffer *buffer, uint8_t value, struct error *err);
RESULT buffer_add_u16(struct buffer *buffer, uint16_t value, struct error *err);
RESULT buffer_add_u32(struct buffer *buffer, uint32_t value, struct error *err);
RESULT buffer_add_u64(struct buffer *buffer, uint64_t value, struct error *err);
/** u32 length, then the bytes. */
RESULT buffer_add_prefixed(struct buffer *buffer, struct bytes bytes, struct error *err);

struct bytes buffer_bytes(const struct buffer *buffer);
/** The text so far; "" for an empty buffer. */
const char *buffer_text(const struct buffer *buffer);
void buffer_clear(struct buffer *buffer);
/** Back to an earlier length; a '\0' follows again. */
void buffer_truncate(struct buffer *buffer, size_t length);
/** Frees; wipes nothing (secrets live in crypto/secret.h). */
void buffer_done(struct buffer *buffer);

/** Reads big-endian fields one after the other. Once a read fails, `failed` stays set and all reads yield 0. */
struct reader {
    struct bytes left;
    bool failed;
};

struct reader reader_of(struct bytes bytes);
uint8_t reader_u8(struct reader *reader);
uint16_t reader_u16(struct reader *reader);
uint32_t reader_u32(struct reader *reader);
uint64_t reader_u64(struct reader *reader);
/** The next `length` bytes, as a view; empty on failure. */
struct bytes reader_take(struct reader *reader, size_t length);
/** u32 length, then that many bytes, at most `maximum`. */
struct bytes reader_prefixed(struct reader *reader, size_t maximum);
/** Whether everything was read, and nothing failed. */
bool reader_is_done(const struct reader *reader);

void store_u16(uint8_t *bytes, uint16_t value);
void store_u32(uint8_t *bytes, uint32_t value);
void store_u64(uint8_t *bytes, uint64_t value);
uint16_t load_u16(const uint8_t *bytes);
uint32_t load_u32(const uint8_t *bytes);
uint64_t load_u64(const uint8_t *bytes);
