/*
 * Only in builds that count coverage: sijil-keyd's sandbox has no open(), so its counters would be lost. In these
 * builds only, the filter also allows the system calls with which libgcov adds the counters to their files.
 */
#include <errno.h>
#include <seccomp.h>
#include <stddef.h>

int __real_seccomp_load(scmp_filter_ctx filter);
int __wrap_seccomp_load(scmp_filter_ctx filter);

int __wrap_seccomp_load(scmp_filter_ctx filter)
{
    static const int more[] = {SCMP_SYS(openat), SCMP_SYS(fcntl), SCMP_SYS(lseek), SCMP_SYS(umask), SCMP_SYS(newfstatat)};
    int problem = 0;

    for (size_t i = 0; i < sizeof more / sizeof more[0] && problem == 0; i++) {
        problem = seccomp_rule_add(filter, SCMP_ACT_ALLOW, more[i], 0);
        if (problem == -EACCES) problem = 0; /* a filter that allows all calls by default */
    }
    return problem != 0 ? problem : __real_seccomp_load(filter);
}
