#include "base/dump.h"

#include <sys/prctl.h>
#include <sys/resource.h>

bool dump_forbid_files(void)
{
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = 0};

    return setrlimit(RLIMIT_CORE, &none) == 0;
}

bool dump_forbid(void)
{
    if (!dump_forbid_files()) return false;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#else
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
#endif
}
