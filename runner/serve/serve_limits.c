#include "runner/serve/serve_limits.h"

#define UNSAID     (-1)
#define LOG_MOST   (INT64_C(1) << 30)
#define FILES_MOST 4096 /* more don't fit into a manifest */

const struct run_limits serve_limits_unsaid = {
#define X(name, least, largest, initial, what) .name = UNSAID,
#include "training/format/limits.def"
#undef X
};

struct run_limits serve_limits(const struct run_limits *said, int64_t cpus, int64_t memory_bytes)
{
    struct run_limits most = {
#define X(name, least, largest, initial, what) .name = largest,
#include "training/format/limits.def"
#undef X
    };

    most.cpus = cpus;
    most.memory_bytes = most.output_bytes = memory_bytes;
    most.output_files = FILES_MOST;
    most.log_bytes = LOG_MOST;
#define X(name, least, largest, initial, what) \
    if (said->name != UNSAID) most.name = said->name;
#include "training/format/limits.def"
#undef X
    return most;
}
