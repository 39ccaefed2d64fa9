/*
 * gateway/http/query.h -- query strings and form bodies (application/x-www-form-urlencoded).
 *
 * Decoded exactly once into text of printable ASCII. Other text is refused, because no name or value here may contain it.
 */
#pragma once

#include "base/arena.h"
#include "gateway/http/message.h"

/** All arguments of `text`, in the arena. ERROR_INVALID, ERROR_LIMIT for too many arguments, ERROR_NO_MEMORY. */
RESULT query_read(struct bytes text, struct arena *arena, struct fields *fields_out, struct error *err);
