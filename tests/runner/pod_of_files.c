/* sijil-pod, for pods whose control group is a folder of files (pod_world.py): what lies where version 1 has its folders is of version 1, the rest of version 2. */
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

int __wrap_fstatfs(int fd, struct statfs *status_out);

int __wrap_fstatfs(int fd, struct statfs *status_out)
{
    char name[32], path[256] = "";

    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    (void)!readlink(name, path, sizeof path - 1);
    memset(status_out, 0, sizeof *status_out);
    status_out->f_type = CGROUP2_SUPER_MAGIC;
    if (strstr(path, "/memory/") != NULL || strstr(path, "/cpu/") != NULL || strstr(path, "/cpuacct/") != NULL)
        status_out->f_type = CGROUP_SUPER_MAGIC;
    return 0;
}
