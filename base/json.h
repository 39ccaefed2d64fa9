/*
 * base/json.h -- reads foreign JSON, and writes JSON in one canonical spelling.
 *
 * A thin layer over jansson. Reading has limits on bytes and depth and refuses duplicate keys; jansson alone would recurse,
 * and keep the last one. The caller owns each `json_t *` that these functions return: `OWNED_JSON x = NULL;`.
 */
#pragma once

#include <jansson.h>

#include "base/bytes.h"

static inline void json_free_owned(json_t **value)
{
    json_decref(*value);
}
#define OWNED_JSON __attribute__((cleanup(json_free_owned))) json_t *

#define JSON_DEPTH_MAX  32        /* deeper than any document of ours or of OCI */
#define JSON_VALUES_MAX (1 << 18) /* 16 bytes each in the largest text; an empty object takes 3 bytes of text and 200 of memory */

/**
 * Parses one JSON text (RFC 8259) of at most `maximum` bytes, JSON_DEPTH_MAX levels and about JSON_VALUES_MAX values
 * (commas and brackets are counted). Duplicate keys, NUL characters and bytes after the text are refused. ERROR_LIMIT,
 * ERROR_INVALID (with the line), ERROR_NO_MEMORY.
 */
RESULT json_read(struct bytes text, size_t maximum, json_t **value_out, struct error *err);

/**
 * As json_read(), but a number that 64 bits or a double can't hold is no error: it becomes a fraction, and so does -0, which
 * not every reader takes for a whole number. For foreign documents with members that we don't read; a member that we read must
 * be a whole number, so a fraction is refused there.
 */
RESULT json_read_any_number(struct bytes text, size_t maximum, json_t **value_out, struct error *err);

/**
 * How often jansson had no memory in this thread. In that case jansson 2.14 refuses a correct text, or drops a character of
 * a text or a member of a copy. A caller of jansson, or of a library on top of it, compares this number before and after.
 */
unsigned json_lacks(void);

/** Appends the canonical text of `value` (RFC 8785, for values without fractions). ERROR_INVALID for reals. */
RESULT json_write_canonical(struct buffer *buffer, const json_t *value, struct error *err);

/** Appends `text` as a JSON string with quotes, escaped as in RFC 8785. The text must be UTF-8. */
RESULT json_write_string(struct buffer *buffer, struct bytes text, struct error *err);

/** Members of objects, typed; NULL or false if absent or of another type. Views live as long as `object`. */
const char *json_text_of(const json_t *object, const char *key);
bool json_integer_of(const json_t *object, const char *key, int64_t *value_out);
