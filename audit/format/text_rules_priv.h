/*
 * audit/format/text_rules_priv.h -- the characters that notes and names may have; lines and words.
 */
#pragma once

#include "base/bytes.h"

/** Whether the name is UTF-8, is not empty, and has no Unicode space, no control character and no '+'. */
bool note_name_is_valid(struct bytes name);
/** Takes the next line off `left`, without its line feed; false if no line feed is left. */
bool next_line(struct bytes *left, struct bytes *line_out);
/** Takes the next word off a line, or an empty view: words have spaces and tabs between them. */
struct bytes next_word(struct bytes *line);
