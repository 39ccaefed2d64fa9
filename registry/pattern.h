/*
 * registry/pattern.h -- patterns of repositories and tags: "v*", "nightly-?".
 *
 * `*` stands for any characters, also none, `?` for one; a slash is a character like others. A pattern must match the
 * whole name. Pure; the time is at most the product of both lengths.
 */
#pragma once

#include "base/bytes.h"

#define PATTERN_MAX 200 /* as long as the longest path of a repository */

/** 1 to PATTERN_MAX characters of names, and * and ?. */
bool pattern_is_valid(struct bytes pattern);
bool pattern_fits(const char *pattern, const char *name);
/** The same for LIKE of SQL. `pattern` is valid. */
RESULT pattern_write_like(struct buffer *text, const char *pattern, struct error *err);
