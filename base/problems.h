/*
 * base/problems.h -- all that is wrong, told one by one, instead of the first thing only.
 *
 * For checks that a person asked for: whoever looks goes on after a problem. Not thread-safe.
 */
#pragma once

#include <stddef.h>

#include "base/result.h"

struct problems {
    void (*tell)(void *context, const struct error *why);
    void *context;
    size_t count; /* so far */
};

void problems_add(struct problems *problems, const struct error *why);
/** The same with a message of one's own. */
void problems_say(struct problems *problems, enum error_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Keeps the first problem in *err, whose kind is ERROR_NONE if there is none; counts all. */
struct problems problems_first(struct error *err);
