/*
 * documents/restriction_officers.h -- the security officers of an organisation whose signatures sijil-keyd counts under a restriction, as the view of documents has them.
 */
#pragma once

#include "documents/format/restriction.h"
#include "documents/view.h"

/** `points` of `found_out` are those of enrolled keys that were not withdrawn; `number` is the highest of all documents in force. For a caller that has updated the view just now. ERROR_CORRUPT. */
RESULT restriction_officers_find(struct document_view *view, const char *organisation, int64_t now_ms,
                                 struct restriction_officers *found_out, struct error *err);
