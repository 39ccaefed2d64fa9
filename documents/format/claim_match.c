#include "documents/format/claim_match.h"

#include <string.h>

#include "base/text.h"

#define DELIMITERS "/:@" /* of refs, subjects and pinned workflows */
#define INDEX_MAX  9999  /* of an element of an array */

static const char *const names[] = {[CLAIM_EQ] = "eq", [CLAIM_IN] = "in", [CLAIM_PREFIX] = "prefix"};

const char *claim_test_name(enum claim_test test)
{
    return names[test];
}

/* ---- pointers ---- */

/* Copies the part at `*at`, without "~0" and "~1", and moves on behind it. False: it does not fit, or is malformed. */
static bool next_part(const char **at, char part[CLAIM_POINTER_MAX + 1])
{
    size_t length = 0;
    const char *from = *at;

    if (*from++ != '/') return false;
    for (; *from != '\0' && *from != '/'; from++) {
        char letter = *from;
        if (letter == '~') {
            letter = *++from;
            if (letter != '0' && letter != '1') return false;
            letter = letter == '0' ? '~' : '/';
        }
        if (length == CLAIM_POINTER_MAX) return false;
        part[length++] = letter;
    }
    part[length] = '\0';
    *at = from;
    return length > 0;
}

bool claim_pointer_is_valid(const char *pointer)
{
    char part[CLAIM_POINTER_MAX + 1];
    unsigned depth = 0;

    if (strlen(pointer) > CLAIM_POINTER_MAX || !text_is_visible(bytes_of_text(pointer))) return false;
    while (*pointer != '\0')
        if (!next_part(&pointer, part) || ++depth > CLAIM_DEPTH_MAX) return false;
    return depth > 0;
}

static const json_t *element(const json_t *array, const char *part)
{
    uint64_t at = 0;

    if (part[0] == '0' && part[1] != '\0') return NULL; /* RFC 6901, 4: no leading zero */
    return text_to_u64(bytes_of_text(part), INDEX_MAX, &at) ? json_array_get(array, at) : NULL;
}

const json_t *claim_find(const json_t *claims, const char *pointer)
{
    char part[CLAIM_POINTER_MAX + 1];

    while (claims != NULL && *pointer != '\0') {
        if (!next_part(&pointer, part)) return NULL;
        claims = json_is_array(claims) ? element(claims, part) : json_object_get(claims, part);
    }
    return claims;
}

/* ---- reading ---- */

static bool is_value(const json_t *value)
{
    const size_t length = json_string_length(value);

    return json_is_integer(value) || json_is_boolean(value) || (json_is_string(value) && length > 0 && length <= CLAIM_TEXT_MAX);
}

static struct result check_values(const char *pointer, const json_t *values, struct error *err)
{
    const size_t count = json_array_size(values);

    if (!json_is_array(values) || count == 0 || count > CLAIM_VALUES_MAX)
        return failure(err, ERROR_INVALID, "%.128s: \"in\" has 1 to %d values", pointer, CLAIM_VALUES_MAX);
    for (size_t i = 0; i < count; i++)
        if (!is_value(json_array_get(values, i)))
            return failure(err, ERROR_INVALID, "%.128s: each value is a text of 1 to %d bytes, a whole number, true or false",
                           pointer, CLAIM_TEXT_MAX);
    return SUCCESS;
}

/* "refs/heads/rel" would also match a branch "relax", which others may make. */
static struct result check_prefix(const char *pointer, const json_t *prefix, struct error *err)
{
    const size_t length = json_string_length(prefix);

    if (!json_is_string(prefix) || length == 0 || length > CLAIM_TEXT_MAX)
        return failure(err, ERROR_INVALID, "%.128s: \"prefix\" is a text of 1 to %d bytes", pointer, CLAIM_TEXT_MAX);
    if (strchr(DELIMITERS, json_string_value(prefix)[length - 1]) != NULL) return SUCCESS;
    return failure(err, ERROR_INVALID, "%.60s: a prefix ends with /, : or @, because \"%.40s\" would also match longer names",
                   pointer, json_string_value(prefix));
}

static struct result check_wanted(const struct claim_condition *condition, struct error *err)
{
    if (condition->test == CLAIM_IN) return check_values(condition->pointer, condition->wanted, err);
    if (condition->test == CLAIM_PREFIX) return check_prefix(condition->pointer, condition->wanted, err);
    if (is_value(condition->wanted)) return SUCCESS;
    return failure(err, ERROR_INVALID, "%.128s: \"eq\" is a text of 1 to %d bytes, a whole number, true or false",
                   condition->pointer, CLAIM_TEXT_MAX);
}

struct result claim_condition_read(const char *pointer, const json_t *value, struct claim_condition *condition_out,
                                   struct error *err)
{
    struct claim_condition condition = {.pointer = pointer};

    if (!claim_pointer_is_valid(pointer))
        return failure(err, ERROR_INVALID, "match: \"%.60s\" is no JSON Pointer such as /repository_id", pointer);
    for (enum claim_test test = CLAIM_EQ; test <= CLAIM_PREFIX; test++) {
        const json_t *wanted = json_object_get(value, names[test]);
        if (wanted == NULL) continue;
        condition.test = test;
        condition.wanted = wanted;
    }
    if (json_object_size(value) != 1 || condition.wanted == NULL)
        return failure(err, ERROR_INVALID, "%.128s: an object with one member expected: eq, in or prefix", pointer);
    TRY(check_wanted(&condition, err));
    *condition_out = condition;
    return SUCCESS;
}

/* ---- matching ---- */

static bool is_same(const json_t *wanted, const json_t *value)
{
    if (json_typeof(wanted) != json_typeof(value)) return false;
    if (json_is_integer(wanted)) return json_integer_value(wanted) == json_integer_value(value);
    if (!json_is_string(wanted)) return true; /* true, or false: the type says it */
    return json_string_length(wanted) == json_string_length(value) &&
           memcmp(json_string_value(wanted), json_string_value(value), json_string_length(wanted)) == 0;
}

/* jansson has a type for each of true and false. */
static bool is_of_type(const json_t *wanted, const json_t *value)
{
    return json_typeof(wanted) == json_typeof(value) || (json_is_boolean(wanted) && json_is_boolean(value));
}

static enum claim_answer compare(const json_t *wanted, const json_t *value)
{
    if (is_same(wanted, value)) return CLAIM_MATCHES;
    return is_of_type(wanted, value) ? CLAIM_DIFFERS : CLAIM_IS_OF_ANOTHER_TYPE;
}

static enum claim_answer compare_all(const json_t *values, const json_t *value)
{
    enum claim_answer answer = CLAIM_IS_OF_ANOTHER_TYPE;

    for (size_t i = 0; i < json_array_size(values) && answer != CLAIM_MATCHES; i++) {
        const enum claim_answer one = compare(json_array_get(values, i), value);
        if (one != CLAIM_IS_OF_ANOTHER_TYPE) answer = one;
    }
    return answer;
}

/* Something follows the prefix: "refs/heads/" is no branch. */
static enum claim_answer compare_prefix(const json_t *prefix, const json_t *value)
{
    const size_t length = json_string_length(prefix);

    if (!json_is_string(value)) return CLAIM_IS_OF_ANOTHER_TYPE;
    return json_string_length(value) > length && memcmp(json_string_value(value), json_string_value(prefix), length) == 0
               ? CLAIM_MATCHES
               : CLAIM_DIFFERS;
}

static enum claim_answer test_value(const struct claim_condition *condition, const json_t *value)
{
    switch (condition->test) {
    case CLAIM_IN: return compare_all(condition->wanted, value);
    case CLAIM_PREFIX: return compare_prefix(condition->wanted, value);
    case CLAIM_EQ: break;
    }
    return compare(condition->wanted, value);
}

enum claim_answer claim_test(const struct claim_condition *condition, const json_t *claims)
{
    const json_t *value = claim_find(claims, condition->pointer);

    return value == NULL ? CLAIM_IS_ABSENT : test_value(condition, value);
}

static bool begins_with(const json_t *text, const json_t *prefix)
{
    return json_string_length(text) >= json_string_length(prefix) &&
           memcmp(json_string_value(text), json_string_value(prefix), json_string_length(prefix)) == 0;
}

bool claim_conditions_meet(const struct claim_condition *one, const struct claim_condition *other)
{
    if (one->test == CLAIM_PREFIX && other->test == CLAIM_PREFIX)
        return begins_with(one->wanted, other->wanted) || begins_with(other->wanted, one->wanted);
    if (one->test == CLAIM_PREFIX) return claim_conditions_meet(other, one);
    if (one->test == CLAIM_EQ) return test_value(other, one->wanted) == CLAIM_MATCHES;
    for (size_t i = 0; i < json_array_size(one->wanted); i++)
        if (test_value(other, json_array_get(one->wanted, i)) == CLAIM_MATCHES) return true;
    return false;
}

bool claim_audience_is(const json_t *claims, const char *audience)
{
    const json_t *value = json_object_get(claims, "aud");

    if (json_is_array(value) && json_array_size(value) == 1) value = json_array_get(value, 0);
    return json_is_string(value) && strcmp(json_string_value(value), audience) == 0;
}
