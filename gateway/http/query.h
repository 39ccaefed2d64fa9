/*
 * gateway/http/query.h -- query strings and form bodies (application/x-www-form-urlencoded).
 *
 * Decoded exactly once into text of printable ASCII; anything else is refused, because nothing we name holds it.
 */
#pragma once

#include "base/arena.h"
#include "gateway/http/message.h"

/** Appends to `fields`, which has room for REQUEST_ARGUMENTS_MAX once it is set up here. ERROR_INVALID, ERROR_LIMIT
 *  for too many arguments, ERROR_NO_MEMORY. */
RESULT query_read(struct bytes text, struct arena *arena, struct fields *fields_out, struct error *err);
