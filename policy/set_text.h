/*
 * policy/set_text.h -- a whole policy set as a person reads it: sentences of 80 columns, and nothing of it left out.
 *
 * Texts of the set are another person's: in them '?' stands for each character that would steer a terminal.
 */
#pragma once

#include "policy/set.h"

#define SET_TEXT_MAX ((size_t)4 * POLICY_SET_BYTES_MAX) /* a set of 1 MiB, with words around its lists */

struct set_reading {
    int64_t now_ms;     /* which exceptions have ended, and which reviews are late */
    const char *policy; /* the id of the one policy to tell; NULL: the whole set */
};
/** Appends policies, exceptions, regions, networks, groups and declassifications. ERROR_LIMIT, ERROR_NO_MEMORY. */
RESULT policy_set_text(const struct policy_set *set, const struct set_reading *reading, struct buffer *text, struct error *err);

/** Appends `text` as a paragraph: `head` before its first line, and as many spaces as `indent` before each further one. */
RESULT set_text_paragraph(const char *head, unsigned indent, const char *text, struct buffer *into, struct error *err);
