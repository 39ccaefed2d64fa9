/*
 * documents/format/claim_match.h -- conditions on the claims of a token: a JSON Pointer (RFC 6901), and what the claim has to be.
 *
 * Pointers, because names of claims have dots and slashes in them. Three tests, and no others: equal to a value, one of some values, or a
 * text that begins with another one which ends at a delimiter. A number never equals a text. Nothing here allocates.
 */
#pragma once

#include <jansson.h>

#include "base/bytes.h"

#define CLAIM_POINTER_MAX 128 /* bytes */
#define CLAIM_DEPTH_MAX   8   /* parts of a pointer; Kubernetes' claims need three */
#define CLAIM_TEXT_MAX    512 /* bytes of a value or a prefix */
#define CLAIM_VALUES_MAX  32  /* of "in" */

enum claim_test { CLAIM_EQ, CLAIM_IN, CLAIM_PREFIX };

/** Views into the rule's JSON. */
struct claim_condition {
    const char *pointer;
    enum claim_test test;
    const json_t *wanted; /* the value, the array of values, or the prefix */
};

/** "/kubernetes.io/serviceaccount/uid": 1 to CLAIM_DEPTH_MAX parts, each with at least one character; "~" only in "~0" and "~1". */
bool claim_pointer_is_valid(const char *pointer);
/** The value at a valid pointer; NULL if there is none. A part that is a whole number also finds an element of an array. */
const json_t *claim_find(const json_t *claims, const char *pointer);

/** Reads one member of "match". ERROR_INVALID says what is wrong with it. */
RESULT claim_condition_read(const char *pointer, const json_t *value, struct claim_condition *condition_out, struct error *err);

enum claim_answer {
    CLAIM_MATCHES,
    CLAIM_IS_ABSENT,
    CLAIM_IS_OF_ANOTHER_TYPE, /* than all wanted values: a number where the rule has a text, or an object */
    CLAIM_DIFFERS
};
enum claim_answer claim_test(const struct claim_condition *condition, const json_t *claims);
/** Whether one value can match both, which have the same pointer. */
bool claim_conditions_meet(const struct claim_condition *one, const struct claim_condition *other);
/** "eq", "in" or "prefix". */
const char *claim_test_name(enum claim_test test);

/** Whether `aud` is this text alone, as a text or as an array of one. */
bool claim_audience_is(const json_t *claims, const char *audience);
