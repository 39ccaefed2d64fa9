/*
 * A condition and the claims of a token, each JSON on a line: {POINTER: CONDITION} and the claims. A condition that matches finds its
 * claim, and no longer matches once the claim is another one.
 */
#include <assert.h>
#include <string.h>

#include "base/json.h"
#include "documents/format/claim_match.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Nothing that a rule may want equals an object. */
static void spoil(json_t *claims, const char *pointer)
{
    json_t *value = (json_t *)(uintptr_t)claim_find(claims, pointer);

    if (json_is_string(value)) assert(json_string_setn(value, "\x01", 1) == 0);
    else if (json_is_integer(value)) assert(json_integer_set(value, INT64_MIN) == 0);
}

static void check(const struct claim_condition *condition, json_t *claims)
{
    const enum claim_answer answer = claim_test(condition, claims);
    const json_t *value = claim_find(claims, condition->pointer);

    assert((answer == CLAIM_IS_ABSENT) == (value == NULL));
    if (answer != CLAIM_MATCHES || json_is_boolean(value)) return;
    assert(json_is_string(value) || json_is_integer(value));
    if (json_is_integer(value) && json_integer_value(value) == INT64_MIN) return;
    if (json_is_string(value) && strcmp(json_string_value(value), "\x01") == 0) return;
    spoil(claims, condition->pointer);
    const enum claim_answer after = claim_test(condition, claims);
    assert(condition->test == CLAIM_IN || after != CLAIM_MATCHES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *line = size == 0 ? NULL : memchr(data, '\n', size);
    OWNED_JSON match = NULL;
    OWNED_JSON claims = NULL;
    const char *pointer;
    json_t *value;
    struct claim_condition condition;
    struct error err = {0};

    if (line == NULL) return 0;
    const size_t length = (size_t)(line - data);
    if (!json_read((struct bytes){data, length}, 16384, &match, &err).ok ||
        !json_read((struct bytes){line + 1, size - length - 1}, 16384, &claims, &err).ok)
        return 0;
    json_object_foreach (match, pointer, value)
        if (claim_condition_read(pointer, value, &condition, &err).ok) check(&condition, claims);
    return 0;
}
