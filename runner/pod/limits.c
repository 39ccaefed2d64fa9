#include "runner/pod/limits.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/text.h"

#define V2         "/sys/fs/cgroup/"
#define V1_MEMORY  "/sys/fs/cgroup/memory/"
#define V1_CPU     "/sys/fs/cgroup/cpu/"
#define V1_CPU_ALL "/sys/fs/cgroup/cpuacct/"
#define TEXT_SIZE  1024
#define UNLIMITED  (INT64_C(1) << 60) /* of version 1: a number that no machine has */

/* An image may have files of these names, and a volume may be put over the control group: only the kernel's own files count. */
static bool is_of_kernel(int fd, const char *path)
{
    const bool is_v1 = strncmp(path, V1_MEMORY, strlen(V1_MEMORY)) == 0 || strncmp(path, V1_CPU, strlen(V1_CPU)) == 0 ||
                       strncmp(path, V1_CPU_ALL, strlen(V1_CPU_ALL)) == 0;
    struct statfs status;

    return fstatfs(fd, &status) == 0 && status.f_type == (is_v1 ? CGROUP_SUPER_MAGIC : CGROUP2_SUPER_MAGIC);
}

/* False: there is no such file. */
static bool read_text(const char *path, char text_out[TEXT_SIZE])
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t length = fd < 0 || !is_of_kernel(fd, path) ? -1 : read(fd, text_out, TEXT_SIZE - 1);

    if (fd >= 0) (void)close(fd);
    text_out[length < 0 ? 0 : length] = '\0';
    return length > 0;
}

/* -1: no number stands there, such as "max". */
static int64_t number_at(const char *text)
{
    uint64_t number = 0;

    return text_to_u64((struct bytes){(const uint8_t *)text, strspn(text, "0123456789")}, INT64_MAX, &number) ? (int64_t)number
                                                                                                              : -1;
}

static int64_t number_of(const char *path)
{
    char text[TEXT_SIZE];

    return read_text(path, text) ? number_at(text) : -1;
}

/* Of a file with lines "NAME NUMBER". */
static int64_t line_of(const char *path, const char *name)
{
    char text[TEXT_SIZE];
    const size_t length = strlen(name);

    if (!read_text(path, text)) return -1;
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n' ? 1 : 0;
        if (strncmp(line, name, length) == 0 && line[length] == ' ') return number_at(line + length + 1);
    }
    return -1;
}

static int64_t share(int64_t quota, int64_t period)
{
    return quota > 0 && period > 0 && quota < UNLIMITED / 1000 ? quota * 1000 / period : 0;
}

/* cpu.max has "QUOTA PERIOD". */
static int64_t cpu_share(void)
{
    char text[TEXT_SIZE];

    if (!read_text(V2 "cpu.max", text)) return 0;
    const char *blank = strchr(text, ' ');
    return blank == NULL ? 0 : share(number_at(text), number_at(blank + 1));
}

static int64_t limit(int64_t number)
{
    return number > 0 && number < UNLIMITED ? number : 0;
}

struct pod_limits pod_limits_see(void)
{
    char text[TEXT_SIZE];

    if (read_text(V2 "memory.max", text))
        return (struct pod_limits){.version = 2, .memory_bytes = limit(number_at(text)), .cpu_thousandths = cpu_share()};
    if (read_text(V1_MEMORY "memory.limit_in_bytes", text))
        return (struct pod_limits){.version = 1,
                                   .memory_bytes = limit(number_at(text)),
                                   .cpu_thousandths =
                                       share(number_of(V1_CPU "cpu.cfs_quota_us"), number_of(V1_CPU "cpu.cfs_period_us"))};
    return (struct pod_limits){0};
}

static int64_t known_or(int64_t number, int64_t otherwise)
{
    return number >= 0 ? number : otherwise;
}

struct pod_use pod_limits_use(void)
{
    const int64_t ns = number_of(V1_CPU_ALL "cpuacct.usage");
    const int64_t kills = known_or(line_of(V2 "memory.events", "oom_kill"), line_of(V1_MEMORY "memory.oom_control", "oom_kill"));

    return (struct pod_use){.cpu_us = known_or(line_of(V2 "cpu.stat", "usage_usec"), ns < 0 ? -1 : ns / 1000),
                            .memory_bytes = known_or(known_or(number_of(V2 "memory.peak"), number_of(V2 "memory.current")),
                                                     number_of(V1_MEMORY "memory.max_usage_in_bytes")),
                            .kills = known_or(kills, 0)};
}
