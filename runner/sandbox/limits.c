#include "runner/sandbox/limits.h"

#include <string.h>

const struct sandbox_limits sandbox_limits_default = {
#define X(name, least, most, initial, what) .name = (initial),
#include "runner/sandbox/limits.def"
#undef X
};

static const char *const names[] = {"rlimits", "cgroup-v1", "cgroup-v2"};

const char *isolation_name(enum isolation isolation)
{
    return names[isolation];
}

bool isolation_find(const char *name, enum isolation *isolation_out)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], name) != 0) continue;
        *isolation_out = (enum isolation)i;
        return true;
    }
    return false;
}
