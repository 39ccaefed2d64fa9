/*
 * gateway/http/path.h -- takes the path of a request target apart, so that no later code decodes anything again.
 *
 * Segments are split first and percent-decoded afterwards (RFC 3986 section 2.4), so %2f never makes a new segment. After decoding,
 * only letters of our own names may remain: no slash, no control character, no space, no second '%'. "." and ".." are refused, and so
 * are empty segments but the last.
 *
 * Below PATH_WITH_SLASHES a segment may hold slashes, because generated clients encode a repository's path as one segment. The texts
 * between these slashes obey the same rules as segments.
 */
#pragma once

#include "base/arena.h"

#define PATH_WITH_SLASHES "/api/v1/repositories/"
#define PATH_SEGMENTS_MAX 160 /* a name of 255 characters has at most 128, and the routes add a few */

struct path {
    size_t count;
    const char *segments[PATH_SEGMENTS_MAX]; /* decoded, in the arena; "" at the end for a final slash */
};

/** Path and query of a request target in origin-form or absolute-form (RFC 9112 section 3.2). Views. False: it has no path. */
bool request_target_split(struct bytes request_target, struct bytes *path_out, struct bytes *query_out);
/** ERROR_INVALID for a path that is refused, ERROR_NO_MEMORY. `path` begins with '/'. */
RESULT path_split(struct bytes path, struct arena *arena, struct path *path_out, struct error *err);
