/*
 * base/problems.h -- collects all problems of an input, not only the first one.
 *
 * For checks that a person asked for: the check goes on after a problem. Not thread-safe.
 */
#pragma once

#include <stddef.h>

#include "base/result.h"

struct problems {
    void (*report)(void *context, const struct error *why);
    void *context;
    size_t count; /* the number so far */
};

void problems_add(struct problems *problems, const struct error *why);
/** Adds a problem with this kind and message. */
void problems_say(struct problems *problems, enum error_kind kind, const char *format, ...) __attribute__((format(printf, 3, 4)));

/** Counts all problems, and keeps the first one in *err. Without a problem the kind of *err is ERROR_NONE. */
struct problems problems_first(struct error *err);
