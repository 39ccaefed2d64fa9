#include "gateway/http/percent.h"

#include <stdio.h>
#include <string.h>

static int digit(uint8_t letter)
{
    if (letter >= '0' && letter <= '9') return letter - '0';
    if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
    if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
    return -1;
}

/* The character at *at, which moves past it; -1 for a broken escape. */
static int next_character(struct bytes raw, bool plus_is_space, size_t *at)
{
    const uint8_t letter = raw.data[(*at)++];

    if (letter == '+' && plus_is_space) return ' ';
    if (letter != '%') return letter;
    if (raw.length - *at < 2) return -1;
    const int high = digit(raw.data[*at]), low = digit(raw.data[*at + 1]);
    *at += 2;
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

struct result percent_decode(struct bytes raw, bool plus_is_space, struct arena *arena, const char **text_out, struct error *err)
{
    char *text = arena_take(arena, raw.length + 1);
    if (text == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to decode %zu characters", raw.length);

    size_t length = 0;
    for (size_t at = 0; at < raw.length;) {
        const int character = next_character(raw, plus_is_space, &at);
        if (character < 0) return failure(err, ERROR_INVALID, "a '%%' is followed by two hexadecimal digits");
        if (character == 0) return failure(err, ERROR_INVALID, "%%00 is not allowed");
        text[length++] = (char)character;
    }
    text[length] = '\0';
    *text_out = text;
    return SUCCESS;
}

const char *percent_encode(const char *text, struct arena *arena)
{
    static const char unreserved[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    char *encoded = arena_take(arena, 3 * strlen(text) + 1);

    if (encoded == NULL) return NULL;
    char *to = encoded;
    for (const char *at = text; *at != '\0'; at++) {
        if (strchr(unreserved, *at) != NULL) *to++ = *at;
        else to += snprintf(to, 4, "%%%02X", (unsigned char)*at);
    }
    *to = '\0';
    return encoded;
}
