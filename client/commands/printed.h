/*
 * client/commands/printed.h -- what a program printed, for a terminal or a file.
 *
 * A file gets each byte as it is. A terminal gets text: a training program could else move the cursor, hide lines, or answer for the person.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/bytes.h"

struct printed {
    bool is_terminal;
    uint8_t held[4]; /* the beginning of a character that has not arrived as a whole */
    size_t held_length;
};

/** Writes the next bytes. On a terminal all characters that steer it become '?', except for the ends of lines, tabs and carriage returns. */
void printed_add(struct printed *text, struct bytes piece, FILE *file);
/** Writes what was held back. */
void printed_end(struct printed *text, FILE *file);
