/*
 * client/terminal.h -- text that somebody else chose, before a person sees it.
 *
 * Whatever comes from a registry goes through here on its way to a terminal: it must not move the cursor, hide lines
 * or answer for the person (ECMA-48). What was cut in the middle of a letter is mended by the way.
 */
#pragma once

#include <stddef.h>

/** Control characters, ASCII's and Latin-1's, and bytes that are no UTF-8 become '?', in place. */
void terminal_tame(char *text);

/** How many columns the terminal behind standard error has; 80 if that is not known. */
unsigned terminal_columns(void);
/** How many bytes of `text` fill at most `columns` columns, a letter of UTF-8 each; *columns_out is how many they fill. */
size_t terminal_fit(const char *text, unsigned columns, unsigned *columns_out);
