/* gateway/http/percent.h -- percent-encoding (RFC 3986 section 2.1), decoded exactly once, or encoded. */
#pragma once

#include "base/arena.h"

/** Into the arena, as text. `plus_is_blank` for forms. ERROR_INVALID for half an escape, or a NUL. */
RESULT percent_decode(struct bytes raw, bool plus_is_blank, struct arena *arena, const char **text_out,
                      struct error *err);
/** Into the arena: what is not unreserved (RFC 3986 section 2.3) is escaped. NULL without memory. */
const char *percent_encode(const char *text, struct arena *arena);
