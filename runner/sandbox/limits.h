/*
 * runner/sandbox/limits.h -- what one run may use, and how strongly a machine holds it to that.
 */
#pragma once

#include <stdint.h>

#include "base/result.h"

struct sandbox_limits {
#define X(name, least, most, initial, what) int64_t name;
#include "runner/sandbox/limits.def"
#undef X
};

extern const struct sandbox_limits sandbox_limits_default;

/** What holds a run to its limits, weakest first (docs/runner.md, "Isolation"). */
enum isolation {
    ISOLATION_RLIMITS,   /* limits of each process; the number of processes; sizes of file systems */
    ISOLATION_CGROUP_V1, /* control groups for the run as a whole, in separate hierarchies */
    ISOLATION_CGROUP_V2  /* one control group */
};

/** "rlimits", "cgroup-v1", "cgroup-v2" */
const char *isolation_name(enum isolation isolation);
bool isolation_find(const char *name, enum isolation *isolation_out);
