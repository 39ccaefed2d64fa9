/*
 * base/memory.h -- the only door to the heap.
 *
 * One door lets the tests fail any allocation, and keeps the static analysers
 * of Debian 12 quiet: clang-tidy 14 and cppcheck 2.10 see a leak wherever a
 * plain malloc() meets OWNED, while gcc -fanalyzer follows it correctly.
 */
#pragma once

#include <stddef.h>
#include <stdlib.h>

#if defined(__GNUC__) && !defined(__clang__)
#define FREED_BY(release) __attribute__((malloc, malloc(release, 1)))
#else
#define FREED_BY(release) __attribute__((malloc))
#endif

/** `count` zeroed objects of `size` bytes each, or NULL; `count * size` may not overflow unseen. */
void *memory_zeroed(size_t count, size_t size) FREED_BY(free) __attribute__((warn_unused_result));

/** Grows or shrinks; the old block stays valid on failure. New bytes are undefined. */
void *memory_resize(void *old, size_t size) __attribute__((warn_unused_result));

/**
 * For a server, before its second thread: what is large goes back to the kernel when it is freed. Else glibc takes the first block
 * of a quarter of a MiB that is freed for a sign that all such shall come from its heaps, where a small thing that lives on above
 * them keeps what a busy minute needed for good. No errors: the worst is more memory.
 */
void memory_give_back_large(void);

/** A copy of `length` bytes with a final '\0', or NULL. */
char *memory_copy_text(const char *text, size_t length) FREED_BY(free) __attribute__((warn_unused_result));
