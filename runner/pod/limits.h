/*
 * runner/pod/limits.h -- what a container sees of its own control group, version 1 or 2 (cgroups(7)).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pod_limits {
    int version;             /* 1, 2; 0: none is to be seen */
    int64_t memory_bytes;    /* 0: without a limit */
    int64_t cpu_thousandths; /* of a processor; 0: without a limit */
};
struct pod_limits pod_limits_see(void);

struct pod_use {
    int64_t cpu_us, memory_bytes; /* of all processes; memory: the most so far. -1: the kernel does not tell */
    int64_t kills;                /* processes that the kernel ended, because the memory was used up */
};
struct pod_use pod_limits_use(void);
