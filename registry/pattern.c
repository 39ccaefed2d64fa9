#include "registry/pattern.h"

#include <string.h>

#include "base/text.h"

bool pattern_is_valid(struct bytes pattern)
{
    return pattern.length > 0 && pattern.length <= PATTERN_MAX &&
           text_consists_of(pattern, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/*?");
}

/* If the rest does not match, the last star takes one character more. Earlier stars need no second try. */
bool pattern_fits(const char *pattern, const char *name)
{
    const char *after_star = NULL, *tried = NULL;

    while (*name != '\0') {
        if (*pattern == '*') {
            after_star = ++pattern;
            tried = name;
        } else if (*pattern != '\0' && (*pattern == '?' || *pattern == *name)) {
            pattern++;
            name++;
        } else if (after_star != NULL) {
            pattern = after_star;
            name = ++tried;
        } else {
            return false;
        }
    }
    return pattern[strspn(pattern, "*")] == '\0';
}

struct result pattern_write_like(struct buffer *text, const char *pattern, struct error *err)
{
    for (; *pattern != '\0'; pattern++) {
        if (*pattern == '_') TRY(buffer_add_u8(text, '\\', err));
        if (*pattern == '*') TRY(buffer_add_u8(text, '%', err));
        else if (*pattern == '?') TRY(buffer_add_u8(text, '_', err));
        else TRY(buffer_add_u8(text, (uint8_t)*pattern, err));
    }
    return SUCCESS;
}
