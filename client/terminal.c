#include "client/terminal.h"

#include <stdbool.h>
#include <sys/ioctl.h>
#include <unistd.h>

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

static bool is_control(const unsigned char *letter, size_t length)
{
    if (length == 1) return letter[0] < 0x20 || letter[0] == 0x7f;
    return length == 2 && letter[0] == 0xc2 && letter[1] < 0xa0;
}

void terminal_tame(char *text)
{
    for (unsigned char *at = (unsigned char *)text; *at != '\0';) {
        const size_t length = sequence_length(at);
        const size_t step = length == 0 ? 1 : length;
        if (length == 0 || is_control(at, length))
            for (size_t i = 0; i < step; i++) at[i] = '?';
        at += step;
    }
}

unsigned terminal_columns(void)
{
    struct winsize size = {0};

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
    return size.ws_col;
}

size_t terminal_fit(const char *text, unsigned columns, unsigned *columns_out)
{
    size_t bytes = 0;
    unsigned filled = 0;

    while (text[bytes] != '\0' && filled < columns) {
        const size_t length = sequence_length((const unsigned char *)text + bytes);
        bytes += length == 0 ? 1 : length;
        filled++;
    }
    *columns_out = filled;
    return bytes;
}
