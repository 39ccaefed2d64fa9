/*
 * base/terminal_text.h -- makes text from others safe to show on a terminal.
 *
 * All text of a registry, and of a file that others made, passes here before it reaches a terminal: it must not move the cursor, make or
 * hide lines, answer for the person (ECMA-48), or read otherwise than it is (UAX 9). A character that was cut in the middle is replaced too.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Whether the character at `text` steers a terminal: the character, or 0. *length_out is its length in bytes of UTF-8; 0: it is no UTF-8.
 * Such characters are Unicode's Cc, the line and paragraph separators, and those that change the order of shown letters (Bidi_Control,
 * UAX 9; U+206A to U+206F): with U+202E, "model<U+202E>xnno.exe" reads as "modelexe.onnx".
 */
uint32_t terminal_control(const char *text, size_t *length_out);
/** Replaces each byte of characters that steer, and of text that is not UTF-8, by '?', in place. */
void terminal_sanitize(char *text);
/** True if terminal_sanitize() would change nothing. */
bool terminal_is_printable(const char *text);
