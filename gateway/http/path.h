/*
 * gateway/http/path.h -- the target of a request taken apart, so that nobody behind it decodes anything again.
 *
 * Segments are split first and percent-decoded then (RFC 3986 section 2.4), so that %2f never makes a new segment.
 * Only letters that our own names consist of may remain after decoding: no slash, no control character, no blank, no
 * second '%'; "." and ".." are refused, and so are empty segments but the last.
 */
#pragma once

#include "base/arena.h"

#define PATH_SEGMENTS_MAX 160 /* a name of 255 characters has at most 128, and the routes add a few */

struct path {
    size_t count;
    const char *segments[PATH_SEGMENTS_MAX]; /* decoded, in the arena; "" at the end for a final slash */
};

/** The path of a request target in origin-form or absolute-form (RFC 9112 section 3.2), without the query. Views. */
bool target_split(struct bytes target, struct bytes *path_out, struct bytes *query_out);
/** ERROR_INVALID for what is refused, ERROR_NO_MEMORY. `path` begins with '/'. */
RESULT path_split(struct bytes path, struct arena *arena, struct path *path_out, struct error *err);
