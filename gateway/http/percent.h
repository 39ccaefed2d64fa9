/* gateway/http/percent.h -- percent-encoding (RFC 3986 section 2.1), decoded exactly once, or encoded. */
#pragma once

#include "base/arena.h"

/** Decodes into the arena, as text. `plus_is_space` is for forms. ERROR_INVALID for an incomplete escape or a NUL. */
RESULT percent_decode(struct bytes raw, bool plus_is_space, struct arena *arena, const char **text_out, struct error *err);
/** Encodes into the arena: escapes all but unreserved characters (RFC 3986 section 2.3). NULL: out of memory. */
const char *percent_encode(const char *text, struct arena *arena);
