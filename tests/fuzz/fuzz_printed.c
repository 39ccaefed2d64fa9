/*
 * What training code printed, in any pieces: a terminal gets valid UTF-8 without characters that steer it, also if the pieces cut characters;
 * a file gets the same bytes. Input: a byte with the length of the pieces, then the text.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "client/commands/printed.h"
#include "client/terminal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *print(bool is_terminal, struct bytes text, size_t piece, size_t *length_out)
{
    struct printed printed = {.is_terminal = is_terminal};
    char *written = NULL;
    FILE *file = open_memstream(&written, length_out);

    assert(file != NULL);
    for (size_t at = 0; at < text.length; at += piece)
        printed_add(&printed, (struct bytes){text.data + at, text.length - at < piece ? text.length - at : piece}, file);
    printed_end(&printed, file);
    assert(fclose(file) == 0);
    return written;
}

static void check_terminal(struct bytes text, size_t piece)
{
    size_t length = 0, whole_length = 0;
    char *shown = print(true, text, piece, &length), *whole = print(true, text, text.length, &whole_length);

    assert(length == whole_length && memcmp(shown, whole, length) == 0 && memchr(shown, '\0', length) == NULL);
    for (char *letter = shown; *letter != '\0'; letter++)
        if (*letter == '\n' || *letter == '\t' || *letter == '\r') *letter = ' ';
    assert(terminal_is_printable(shown));
    free(shown);
    free(whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t length = 0;

    if (size < 2) return 0;
    const struct bytes text = {data + 1, size - 1};
    check_terminal(text, 1 + data[0] % 16);
    char *kept = print(false, text, 1 + data[0] % 16, &length);
    assert(length == text.length && memcmp(kept, text.data, length) == 0);
    free(kept);
    return 0;
}
