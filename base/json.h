/*
 * base/json.h -- JSON from strangers, and JSON in one canonical spelling.
 *
 * A thin layer over jansson: every reading has a limit on bytes and depth and
 * refuses duplicate keys (jansson alone would recurse and keep the last one).
 * `json_t *` from here is owned by the caller: `OWNED_JSON x = NULL;`.
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
#define JSON_VALUES_MAX (1 << 18) /* 16 bytes each in the largest text; an empty object takes 3 and 200 of memory */

/**
 * Parses one JSON text (RFC 8259) of at most `maximum` bytes, JSON_DEPTH_MAX levels and about JSON_VALUES_MAX values
 * (commas and brackets are counted), without duplicate keys, NUL characters, or anything after it. ERROR_LIMIT or ERROR_INVALID (with the line), ERROR_NO_MEMORY.
 */
RESULT json_read(struct bytes text, size_t maximum, json_t **value_out, struct error *err);

/**
 * As json_read(), but a number that 64 bits or a double don't hold is a fraction to whoever asks, and no error. For foreign
 * documents with members that nobody here reads; a member that is read must be a whole number, and a fraction is none.
 */
RESULT json_read_any_number(struct bytes text, size_t maximum, json_t **value_out, struct error *err);

/**
 * How often jansson got no memory in this thread, from its start. jansson 2.14 says then that a good text is wrong, or
 * reads it with a letter less, or copies it with a member less: whoever uses it, or a library on it, compares this with
 * what it was before.
 */
unsigned json_lacks(void);

/** Appends the canonical text of `value` (RFC 8785, for values without fractions). ERROR_INVALID for reals. */
RESULT json_write_canonical(struct buffer *buffer, const json_t *value, struct error *err);

/** Appends `text` as a JSON string with its quotes, escaped as RFC 8785 has it. The text must be UTF-8. */
RESULT json_write_string(struct buffer *buffer, struct bytes text, struct error *err);

/** Members of objects, typed; NULL or false when absent or of another type. Views live as long as `object`. */
const char *json_text_of(const json_t *object, const char *key);
bool json_integer_of(const json_t *object, const char *key, int64_t *value_out);
