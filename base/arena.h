/*
 * base/arena.h -- memory for one request, freed all at once.
 *
 * Nothing in an arena is freed by itself. An arena belongs to one thread at a time and has a maximum, so no request grows
 * without bound.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"

struct arena;

/** An arena that holds at most `maximum` bytes. ERROR_NO_MEMORY. */
RESULT arena_new(size_t maximum, struct arena **arena_out, struct error *err);
/** `size` zeroed bytes, aligned for any object; NULL at the maximum, or when out of memory. */
void *arena_take(struct arena *arena, size_t size) __attribute__((warn_unused_result));
/** A copy with a final '\0', or NULL. */
char *arena_copy_text(struct arena *arena, struct bytes text) __attribute__((warn_unused_result));
/** printf into the arena, or NULL. */
char *arena_format(struct arena *arena, const char *format, ...) __attribute__((warn_unused_result, format(printf, 2, 3)));

/** Wipes the memory, then frees it. */
void arena_free(struct arena *arena);
DEFINE_OWNED(arena);
