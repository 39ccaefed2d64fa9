#include "base/terminal_text.h"

#include <string.h>

static bool is_between(unsigned char byte, unsigned char first, unsigned char last)
{
    return byte >= first && byte <= last;
}

/* Bytes of the well-formed UTF-8 sequence at `text` (RFC 3629 section 4); 0 if there is none. */
static size_t sequence_length(const unsigned char *text)
{
    const unsigned char lead = text[0];
    const unsigned char first = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const unsigned char last = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;

    if (lead < 0x80) return 1;
    const size_t length = is_between(lead, 0xc2, 0xdf)   ? 2
                          : is_between(lead, 0xe0, 0xef) ? 3
                          : is_between(lead, 0xf0, 0xf4) ? 4
                                                         : 0;
    if (length == 0 || !is_between(text[1], first, last)) return 0;
    for (size_t i = 2; i < length; i++)
        if (!is_between(text[i], 0x80, 0xbf)) return 0;
    return length;
}

static uint32_t code_of(const unsigned char *text, size_t length)
{
    static const unsigned char lead_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07}; /* by length */
    uint32_t code = text[0] & lead_bits[length];

    for (size_t i = 1; i < length; i++) code = code << 6 | (text[i] & 0x3fu);
    return code;
}

static bool is_control(uint32_t code)
{
    static const uint32_t ranges[][2] = {{0x01, 0x1f},     {0x7f, 0x9f},     {0x61c, 0x61c},
                                         {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x206f}};

    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (code >= ranges[i][0] && code <= ranges[i][1]) return true;
    return false;
}

uint32_t terminal_control(const char *text, size_t *length_out)
{
    const unsigned char *at = (const unsigned char *)text;
    const size_t length = sequence_length(at);
    const uint32_t code = length == 0 ? 0 : code_of(at, length);

    *length_out = length;
    return is_control(code) ? code : 0;
}

void terminal_sanitize(char *text)
{
    while (*text != '\0') {
        size_t length = 0;
        const bool is_shown = terminal_control(text, &length) == 0 && length > 0;
        const size_t step = length == 0 ? 1 : length;
        if (!is_shown) memset(text, '?', step);
        text += step;
    }
}

bool terminal_is_printable(const char *text)
{
    while (*text != '\0') {
        size_t length = 0;
        if (terminal_control(text, &length) != 0 || length == 0) return false;
        text += length;
    }
    return true;
}
