/*
 * audit/format/export_terms.h -- what the event of an export states: the key, the range, and the auditor's nonce
 * (docs/formats/audit-export.md section 1).
 *
 * The event is the closing entry of its export: it stands under the exported key. So the terms are a part of what the keys of an event follow from
 * (leaf_fill_keys()).
 */
#pragma once

#include "audit/format/leaf.h"

#define EXPORT_ACTION     "audit.export"
#define EXPORT_NONCE_MIN  32 /* hex digits: 16 bytes that nobody can guess */
#define EXPORT_NONCE_MAX  64
#define EXPORT_NUMBER_MAX LEAF_INTEGER_MAX                       /* as the end of a range: there is no end */
#define EXPORT_TERMS_MAX  (LEAF_KEY_MAX + EXPORT_NONCE_MAX + 64) /* bytes: two numbers of 16 digits, two words, five spaces */

enum export_unit { EXPORT_BY_NUMBER, EXPORT_BY_TIME };

struct export_terms {
    enum export_unit unit;            /* of the range */
    uint64_t from, until;             /* from <= x < until: sequence numbers, or milliseconds since 1970 */
    char nonce[EXPORT_NONCE_MAX + 1]; /* lower-case hex */
    bool is_opened;                   /* with what was sealed beside the events */
    char key[LEAF_KEY_MAX + 1];       /* "res:acme/models/digits" */
};

/** Whether it is 32 to 64 lower-case hexadecimal digits. */
bool export_nonce_is_valid(struct bytes nonce);
/** "number" or "time". */
const char *export_unit_name(enum export_unit unit);
/** "number 0 9007199254740991 NONCE sealed KEY". */
RESULT export_terms_write(const struct export_terms *terms, struct buffer *text, struct error *err);
/** False unless `text` is the one spelling of terms. The key may be one that no event has (leaf_key_is_possible()). */
bool export_terms_read(struct bytes text, struct export_terms *terms_out);
bool export_terms_equal(const struct export_terms *a, const struct export_terms *b);
