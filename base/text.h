/*
 * base/text.h -- numbers and bytes as text: decimal, hex, base64.
 *
 * Every reader is strict: the whole input must have the stated form, in its one canonical spelling; otherwise the result is
 * false or an error.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

/** Decimal digits only, no sign, no leading zero except in "0", at most `maximum`. */
bool text_to_u64(struct bytes text, uint64_t maximum, uint64_t *value_out);

/** Lower-case hex; `out` has room for 2 * length + 1 characters. */
void text_hex(const uint8_t *data, size_t length, char *out);
/** Exactly `length` bytes from 2 * length lower-case hex digits. */
bool text_from_hex(struct bytes text, uint8_t *out, size_t length);

enum base64_kind {
    BASE64_STANDARD, /* RFC 4648 section 4, padded */
    BASE64_URL       /* RFC 4648 section 5, without padding, as in JOSE */
};

/** Appends the encoding of `data`. */
RESULT text_base64(struct buffer *buffer, enum base64_kind kind, struct bytes data, struct error *err);
/** Appends the decoded bytes; ERROR_INVALID for foreign characters, wrong padding or set trailing bits. */
RESULT text_from_base64(struct buffer *buffer, enum base64_kind kind, struct bytes text, struct error *err);
/** As text_from_base64(), for exactly `length` bytes; allocates nothing. If the result is false, `out` may have changed. */
bool text_from_base64_exactly(enum base64_kind kind, struct bytes text, uint8_t *out, size_t length);

/** Whether `text` consists of `letters` only; true for "". */
bool text_consists_of(struct bytes text, const char *letters);

/**
 * Whether a person sees each character of `text`, which is UTF-8: no control or format character (Unicode Cc, Cf), no line or paragraph
 * separator, no filler, and no noncharacter. With one of these two different names can look the same. True for "".
 */
bool text_is_visible(struct bytes text);

/** Copies `text` with its NUL. False: it does not fit in `size` bytes, and `out` has its beginning. */
bool text_copy(char *out, size_t size, const char *text);
/** The same for a setting. ERROR_INVALID, with the name `what`, if it does not fit; NULL is "". */
RESULT text_copy_setting(char *out, size_t size, const char *what, const char *text, struct error *err);

/** Cuts off and returns the part of `text` before the first `end`, or all of it. The `end` goes too. */
struct bytes text_cut(struct bytes *text, char end);

/** Compares in constant time, for equal lengths; the lengths are not secret. */
bool bytes_equal_secret(struct bytes a, struct bytes b);
