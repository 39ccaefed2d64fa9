/*
 * client/terminal.h -- text that somebody else chose, before a person sees it.
 *
 * Whatever comes from a registry goes through here on its way to a terminal: it must not move the cursor, hide lines
 * answer for the person (ECMA-48) or read otherwise than it is (UAX 9). What was cut in the middle of a letter is mended by the way.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * The character at `text` if it is one that steers, else 0; *length_out is how many bytes of UTF-8 it has, 0 if there is none.
 * Those that steer: Unicode's Cc, the line and paragraph separators, and what changes the order in which letters are shown
 * (Bidi_Control, UAX 9; U+206A to U+206F): with U+202E, "model<U+202E>xnno.exe" reads as "modelexe.onnx".
 */
uint32_t terminal_control(const char *text, size_t *length_out);
/** Characters that steer and bytes that are no UTF-8 become '?', each byte, in place. */
void terminal_tame(char *text);
/** True if terminal_tame() would change nothing. */
bool terminal_is_tame(const char *text);

/** How many columns the terminal behind standard error has; 80 if that is not known. */
unsigned terminal_columns(void);
/** How many bytes of `text` fill at most `columns` columns, a letter of UTF-8 each; *columns_out is how many they fill. */
size_t terminal_fit(const char *text, unsigned columns, unsigned *columns_out);
