/*
 * base/process.h -- the resources that this process uses, as the kernel counts them; the signals that end it.
 */
#pragma once

#include <stdint.h>

#include "base/result.h"

struct process_use {
    int64_t cpu_us;     /* of all threads, in the kernel too */
    int64_t started_us; /* since 1970 */
    int64_t resident_bytes, virtual_bytes;
    int64_t threads;
    int64_t open_files, open_files_max; /* descriptors; the second is the soft limit, INT64_MAX: none */
};

/** `handler` for the signals that end a program: INT, TERM and HUP. A call of the system that waits ends with EINTR. */
void process_end_by(void (*handler)(int number));

/** ERROR_UNAVAILABLE when /proc can't be read. */
RESULT process_use_read(struct process_use *use_out, struct error *err);
