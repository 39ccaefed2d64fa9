/* Conditions of searches as keys. Client and server ask here, so both mean the same key. */
#include <stdio.h>
#include <string.h>

#include "audit/format/leaf.h"

#define ALPHANUMERIC "abcdefghijklmnopqrstuvwxyz0123456789"

/* A segment of a repository's name, as a typing error seldom is: "digits:v1" and "" are none. */
static bool is_segment(const char *text, size_t length)
{
    if (length == 0 || strspn(text, ALPHANUMERIC "._-") < length) return false;
    return strchr(ALPHANUMERIC, text[0]) != NULL && strchr(ALPHANUMERIC, text[length - 1]) != NULL;
}

/* The number of segments, and the length of the first `most` of them. False: this is no name. */
static bool read_segments(const char *name, size_t most, size_t *count_out, size_t *length_out)
{
    size_t count = 0;

    *length_out = 0;
    for (const char *at = name; *at != '\0' || count == 0;) {
        const size_t length = strcspn(at, "/");
        if (!is_segment(at, length)) return false;
        if (count++ < most) *length_out = (size_t)(at + length - name);
        at += length + (at[length] == '/' ? 1 : 0); /* a slash at the end says nothing */
    }
    *count_out = count;
    return true;
}

static bool key_of_name(bool is_prefix, const char *name, char key_out[LEAF_KEY_MAX + 1], bool *is_exact_out)
{
    size_t count = 0, length = 0;

    if (!read_segments(name, is_prefix ? 2 : SIZE_MAX, &count, &length) || length > LEAF_NAME_MAX) return false;
    const char *of_prefix = count == 1 ? "org:" : "prj:";
    (void)snprintf(key_out, LEAF_KEY_MAX + 1, "%s%.*s", is_prefix ? of_prefix : "res:", (int)length, name);
    *is_exact_out = !is_prefix || count <= 2; /* names below a repository's stand under no key of their own */
    return true;
}

bool leaf_key_of_condition(const char *condition, const char *value, char key_out[LEAF_KEY_MAX + 1], bool *is_exact_out)
{
    const bool is_prefix = strcmp(condition, "prefix") == 0;

    if (is_prefix || strcmp(condition, "resource") == 0) return key_of_name(is_prefix, value, key_out, is_exact_out);
    const bool is_actor = strcmp(condition, "actor") == 0;
    if ((!is_actor && strcmp(condition, "outcome") != 0) || strlen(value) > LEAF_NAME_MAX) return false;
    *is_exact_out = true;
    (void)snprintf(key_out, LEAF_KEY_MAX + 1, "%s%s", is_actor ? "act:" : "out:", value);
    return leaf_key_is_possible(key_out);
}
