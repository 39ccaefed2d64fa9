/*
 * client/terminal.h -- text that somebody else chose, before a person sees it.
 *
 * Whatever comes from a registry goes through here on its way to a terminal: it must not move the cursor, hide lines
 * or answer for the person (ECMA-48). What was cut in the middle of a letter is mended by the way.
 */
#pragma once

/** Control characters, ASCII's and Latin-1's, and bytes that are no UTF-8 become '?', in place. */
void terminal_tame(char *text);
