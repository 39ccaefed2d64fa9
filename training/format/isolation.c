/* The names of isolations, the weakest first (spec.h). */
#include <string.h>

#include "training/format/spec.h"

static const char *const isolations[] = {"rlimits", "cgroup-v1", "cgroup-v2"};

const char *isolation_name(enum isolation isolation)
{
    return isolations[isolation];
}

bool isolation_find(const char *name, enum isolation *isolation_out)
{
    for (size_t i = 0; i < sizeof isolations / sizeof isolations[0]; i++) {
        if (strcmp(isolations[i], name) != 0) continue;
        *isolation_out = (enum isolation)i;
        return true;
    }
    return false;
}
