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
 * For a server, before its second thread: what is larger than a block of a body (a quarter of a MiB) goes back to the kernel when it
 * is freed, and that size stays: else glibc raises it as larger things are freed. No errors: the worst is more memory.
 */
void memory_give_back_large(void);

/**
 * What lies free between things that live on goes back to the kernel, page by page. To be called now and then: what many clients
 * needed at a time is kept until then, so that it is not fetched anew, page fault by page fault, for each of their requests.
 */
void memory_give_back_free(void);

/** A copy of `length` bytes with a final '\0', or NULL. */
char *memory_copy_text(const char *text, size_t length) FREED_BY(free) __attribute__((warn_unused_result));
