/*
 * runner/serve/serve_limits.h -- the most that one run may ask for on this runner, from what its administrator says (--limit). Pure.
 */
#pragma once

#include "training/format/spec.h"

/** No limit is said. 0 can be said: no grace, no log. */
extern const struct run_limits serve_limits_unsaid;

/**
 * What is not said is the largest value of the format; of processors and memory all that the runner has, since files in memory, such as the
 * outputs, count as memory; of files and of the log what a manifest and a page can show.
 */
struct run_limits serve_limits(const struct run_limits *said, int64_t cpus, int64_t memory_bytes);
