/*
 * audit/format/text_rules_priv.h -- which characters may stand where in notes and names.
 */
#pragma once

#include "base/bytes.h"

/** Not empty, UTF-8, no Unicode blank, no control character, no '+'. */
bool note_name_is_valid(struct bytes name);
/** The next line without its line feed, dropped from `left`; false if there is no line feed any more. */
bool next_line(struct bytes *left, struct bytes *line_out);
