#include "client/commands/printed.h"

#include <string.h>

#include "client/terminal.h"

/* How many bytes the character that begins with this byte has (RFC 3629); 1 for a byte that begins none. */
static size_t length_of(uint8_t first)
{
    if (first >= 0xf0 && first <= 0xf4) return 4;
    if (first >= 0xe0 && first <= 0xef) return 3;
    return first >= 0xc2 && first <= 0xdf ? 2 : 1;
}

static void write_character(const uint8_t *bytes, size_t length, FILE *file)
{
    char letter[5] = ""; /* a character of four bytes, and '\0' */

    memcpy(letter, bytes, length);
    if (length == 1 && (bytes[0] == '\n' || bytes[0] == '\t' || bytes[0] == '\r')) {
        (void)fputc(bytes[0], file);
        return;
    }
    if (bytes[0] == '\0') (void)snprintf(letter, sizeof letter, "?");
    terminal_sanitize(letter);
    (void)fputs(letter, file);
}

/* Takes one character or holds it back. Returns the number of bytes of `piece` that were used. */
static size_t take(struct printed *text, struct bytes piece, FILE *file)
{
    const uint8_t first = text->held_length > 0 ? text->held[0] : piece.data[0];
    const size_t wanted = length_of(first) - text->held_length;
    size_t used = 0;

    while (used < wanted && used < piece.length && (used + text->held_length == 0 || (piece.data[used] & 0xc0) == 0x80)) {
        text->held[text->held_length + used] = piece.data[used];
        used++;
    }
    text->held_length += used;
    if (used == piece.length && used < wanted) return used; /* the rest is still to come */
    write_character(text->held, text->held_length, file);
    text->held_length = 0;
    return used;
}

void printed_add(struct printed *text, struct bytes piece, FILE *file)
{
    if (!text->is_terminal) {
        if (piece.length > 0) (void)fwrite(piece.data, 1, piece.length, file);
        return;
    }
    while (piece.length > 0) {
        const size_t used = take(text, piece, file);
        piece = (struct bytes){piece.data + used, piece.length - used};
    }
}

void printed_end(struct printed *text, FILE *file)
{
    if (text->held_length > 0) write_character(text->held, text->held_length, file);
    text->held_length = 0;
}
