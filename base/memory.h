/*
 * base/memory.h -- the only way to allocate memory.
 *
 * So the tests can make any allocation fail. It also keeps the static analysers of Debian 12 quiet: clang-tidy 14 and
 * cppcheck 2.10 see a leak wherever a plain malloc() meets OWNED, while gcc -fanalyzer follows it correctly.
 */
#pragma once

#include <stddef.h>
#include <stdlib.h>

#if defined(__GNUC__) && !defined(__clang__)
#define FREED_BY(release) __attribute__((malloc, malloc(release, 1)))
#else
#define FREED_BY(release) __attribute__((malloc))
#endif

/** `count` zeroed objects of `size` bytes each. NULL when out of memory, or if `count * size` overflows. */
void *memory_zeroed(size_t count, size_t size) FREED_BY(free) __attribute__((warn_unused_result));

/** Grows or shrinks. On failure the old block stays valid. New bytes are undefined. */
void *memory_resize(void *old, size_t size) __attribute__((warn_unused_result));

/**
 * For a server, before its second thread: memory larger than a block of a body (a quarter of a MiB) goes back to the kernel
 * when it is freed. The threshold is fixed, because glibc would raise it as larger memory is freed. No errors: at worst the
 * process keeps more memory.
 */
void memory_give_back_large(void);

/**
 * Returns free pages between used ones to the kernel. Call it from time to time: memory that many clients needed at once is
 * kept until then, so that their next requests have no page faults.
 */
void memory_give_back_free(void);

/** A copy of `length` bytes with a final '\0', or NULL. */
char *memory_copy_text(const char *text, size_t length) FREED_BY(free) __attribute__((warn_unused_result));
