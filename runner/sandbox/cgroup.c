#include "runner/sandbox/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

#define ROOT       "/sys/fs/cgroup"
#define OWN_GROUPS "/proc/self/cgroup"
#define ASIDE      "/runner"
#define VALUE_SIZE 64
#define PERIOD_US  100000 /* of the processor's share, as the kernel's default */
#define REMOVE_MS  2000   /* a killed process leaves its group a moment after its end */
#define AGAIN_US   5000   /* until it is tried again */
#define MAKE_TRIES 200
#define RUN_DIGITS 32

struct cgroup {
    enum isolation isolation;
    size_t count;
    int folders[CGROUP_FOLDERS_MAX];
    const struct cgroup_place *place;
    char name[64];
};

/* Version 1, in the order of `folders`: the first two must be there. */
static const char *const hierarchies[CGROUP_FOLDERS_MAX] = {"memory", "pids", "cpu", "cpuacct"};
enum { MEMORY, PIDS, CPU, CPUACCT };
#define DEMANDED_V1 CPU

static bool is_of_kind(const char *path, unsigned long kind)
{
    struct statfs about;

    return statfs(path, &about) == 0 && (unsigned long)about.f_type == kind;
}

/* The path of this process in a hierarchy: the text after "N:CONTROLLER,...:" up to the end of its line. */
static bool own_group(const char *groups, const char *controller, char path[CGROUP_PATH_SIZE])
{
    const size_t length = strlen(controller);

    for (const char *line = groups; line != NULL && *line != '\0';
         line = strchr(line, '\n') == NULL ? NULL : strchr(line, '\n') + 1) {
        const char *list = strchr(line, ':'), *at = list == NULL ? NULL : strchr(list + 1, ':');
        const char *found = list == NULL ? NULL : strstr(list, controller);
        if (at == NULL || found == NULL || found > at) continue;
        if ((found[-1] != ':' && found[-1] != ',') || (found[length] != ':' && found[length] != ',')) continue;
        const size_t size = strcspn(at + 1, "\n");
        if (size >= CGROUP_PATH_SIZE) return false;
        memcpy(path, at + 1, size);
        path[size] = '\0';
        return true;
    }
    return false;
}

static void lack(struct cgroup_place *place, const char *folder, const char *why)
{
    place->isolation = ISOLATION_RLIMITS;
    place->count = 0;
    (void)snprintf(place->lacks, sizeof place->lacks, "%.90s %s", folder, why);
}

/* In a container the path may be that of the machine, and then it does not exist here: the root of the mount is our group. */
static bool find_v1_folder(const char *groups, const char *controller, char folder[CGROUP_PATH_SIZE])
{
    char path[CGROUP_PATH_SIZE];

    if (!is_of_kind(ROOT, TMPFS_MAGIC) || !own_group(groups, controller, path)) return false;
    const int length = snprintf(folder, CGROUP_PATH_SIZE, ROOT "/%s%s", controller, strcmp(path, "/") == 0 ? "" : path);
    if (length < 0 || length >= CGROUP_PATH_SIZE) return false;
    if (access(folder, F_OK) != 0) (void)snprintf(folder, CGROUP_PATH_SIZE, ROOT "/%s", controller);
    return is_of_kind(folder, CGROUP_SUPER_MAGIC);
}

static bool find_v1(const char *groups, struct cgroup_place *place)
{
    for (size_t i = 0; i < CGROUP_FOLDERS_MAX; i++) {
        char *folder = place->folders[i];
        const bool is_there = find_v1_folder(groups, hierarchies[i], folder) && access(folder, W_OK) == 0;
        if (!is_there && i < DEMANDED_V1) return false;
        if (!is_there) folder[0] = '\0';
    }
    place->isolation = ISOLATION_CGROUP_V1;
    place->count = CGROUP_FOLDERS_MAX;
    return true;
}

static bool write_value(int folder, const char *name, const char *value)
{
    const int fd = openat(folder, name, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const bool done = write(fd, value, strlen(value)) == (ssize_t)strlen(value);
    const int problem = errno;
    (void)close(fd);
    errno = problem;
    return done;
}

static bool read_value(int folder, const char *name, char *text, size_t size)
{
    const int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
    const ssize_t length = fd < 0 ? -1 : read(fd, text, size - 1);

    if (fd >= 0) (void)close(fd);
    if (length < 0) return false;
    text[length] = '\0';
    return true;
}

static bool has_word(const char *text, const char *word)
{
    const size_t length = strlen(word);

    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word))
        if ((at == text || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\n' || at[length] == '\0')) return true;
    return false;
}

static bool gives_controllers(int folder)
{
    char given[VALUE_SIZE * 4];

    (void)write_value(folder, "cgroup.subtree_control", "+cpu");
    (void)write_value(folder, "cgroup.subtree_control", "+memory +pids"); /* fails if they are on already: the next line checks */
    return read_value(folder, "cgroup.subtree_control", given, sizeof given) && has_word(given, "memory") &&
           has_word(given, "pids");
}

static void find_v2(const char *groups, const char *delegated, struct cgroup_place *place)
{
    char path[CGROUP_PATH_SIZE] = "", *folder = place->folders[0];
    const char *own = strstr(groups, "0::/");
    const int size = own == NULL ? 0 : (int)strcspn(own + 3, "\n");

    if (delegated == NULL) (void)snprintf(path, sizeof path, ROOT "%.*s", size, own == NULL ? "" : own + 3);
    (void)snprintf(folder, CGROUP_PATH_SIZE, "%s", delegated == NULL ? path : delegated);
    const int opened = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool is_ours = opened >= 0 && is_of_kind(folder, CGROUP2_SUPER_MAGIC) && access(folder, W_OK) == 0;
    const bool gives = is_ours && gives_controllers(opened);
    if (opened >= 0) (void)close(opened);
    if (!gives) {
        lack(place, folder,
             is_ours ? "gives no memory and pids: delegate a folder without processes (--cgroup)"
                     : "is not for this user: delegate a folder, and name it with --cgroup");
        return;
    }
    place->isolation = ISOLATION_CGROUP_V2;
    place->count = 1;
}

void cgroup_find(const char *delegated, struct cgroup_place *place_out)
{
    char groups[8192] = ""; /* fifteen controllers, each with a path */
    struct cgroup_place place = {.isolation = ISOLATION_RLIMITS};

    if (!read_value(AT_FDCWD, OWN_GROUPS, groups, sizeof groups)) lack(&place, OWN_GROUPS, "can't be read");
    else if (delegated != NULL || is_of_kind(ROOT, CGROUP2_SUPER_MAGIC)) find_v2(groups, delegated, &place);
    else if (!find_v1(groups, &place))
        lack(&place, ROOT "/memory and /pids", "are not for this user: start it as root, or with control groups of version 2");
    *place_out = place;
}

struct result cgroup_step_aside(char path_out[CGROUP_PATH_SIZE], struct error *err)
{
    char groups[8192] = "", below[CGROUP_PATH_SIZE + sizeof ASIDE];
    OWNED_FD folder = -1;

    const bool is_read = read_value(AT_FDCWD, OWN_GROUPS, groups, sizeof groups);
    const char *own = strstr(groups, "0::/");
    if (!is_read || own == NULL || !is_of_kind(ROOT, CGROUP2_SUPER_MAGIC))
        return failure(err, ERROR_NOT_FOUND, "this machine has no control groups of version 2 alone");
    (void)snprintf(path_out, CGROUP_PATH_SIZE, ROOT "%.*s", (int)strcspn(own + 3, "\n"), own + 3);
    (void)snprintf(below, sizeof below, "%s" ASIDE, path_out);
    if (mkdir(below, 0755) != 0 && errno != EEXIST)
        return failure(err, ERROR_UNAVAILABLE, "%.180s can't be made: %s", below, strerror(errno));
    TRY(file_open(below, O_RDONLY | O_DIRECTORY, 0, &folder, err));
    if (write_value(folder, "cgroup.procs", "0")) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "%.180s can't be joined: %s", below, strerror(errno));
}

static struct result limit(const struct cgroup *cgroup, size_t which, const char *name, int64_t value, struct error *err)
{
    char text[VALUE_SIZE];

    (void)snprintf(text, sizeof text, "%lld", (long long)value);
    if (write_value(cgroup->folders[which], name, text)) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "the control group does not take %s = %s: %s", name, text, strerror(errno));
}

/* Memory plus swap is limited if the kernel counts swap. Otherwise the swap of the machine is not part of the limit. */
static struct result limit_v1(const struct cgroup *cgroup, const struct run_limits *limits, struct error *err)
{
    TRY(limit(cgroup, MEMORY, "memory.limit_in_bytes", limits->memory_bytes, err));
    if (faccessat(cgroup->folders[MEMORY], "memory.memsw.limit_in_bytes", W_OK, 0) == 0)
        TRY(limit(cgroup, MEMORY, "memory.memsw.limit_in_bytes", limits->memory_bytes, err));
    TRY(limit(cgroup, PIDS, "pids.max", limits->processes, err));
    if (cgroup->folders[CPU] < 0) return SUCCESS;
    TRY(limit(cgroup, CPU, "cpu.cfs_period_us", PERIOD_US, err));
    return limit(cgroup, CPU, "cpu.cfs_quota_us", limits->cpus * PERIOD_US, err);
}

static struct result limit_v2(const struct cgroup *cgroup, const struct run_limits *limits, struct error *err)
{
    char share[VALUE_SIZE];

    TRY(limit(cgroup, 0, "memory.max", limits->memory_bytes, err));
    TRY(limit(cgroup, 0, "pids.max", limits->processes, err));
    if (faccessat(cgroup->folders[0], "memory.swap.max", W_OK, 0) == 0) TRY(limit(cgroup, 0, "memory.swap.max", 0, err));
    (void)write_value(cgroup->folders[0], "memory.oom.group", "1"); /* the kernel ends the whole run, and not a part of it */
    if (faccessat(cgroup->folders[0], "cpu.max", W_OK, 0) != 0) return SUCCESS;
    (void)snprintf(share, sizeof share, "%lld %d", (long long)limits->cpus * PERIOD_US, PERIOD_US);
    if (write_value(cgroup->folders[0], "cpu.max", share)) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "the control group does not take cpu.max = %s: %s", share, strerror(errno));
}

static bool path_of(const struct cgroup_place *place, size_t which, const char *name, char path[CGROUP_PATH_SIZE + 64])
{
    if (place->folders[which][0] == '\0') return false;
    (void)snprintf(path, CGROUP_PATH_SIZE + 64, "%s/%s", place->folders[which], name);
    return true;
}

/* Whether the name still means the open group. */
static bool is_at(int folder, const char *name, int group)
{
    struct stat there, ours;

    return fstatat(folder, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && fstat(group, &ours) == 0 && there.st_ino == ours.st_ino &&
           there.st_dev == ours.st_dev;
}

/* Until the new group has its lock, another runner may take it for one that was left, and remove it: then it is made again. */
static struct result make_folder(const char *path, int *fd_out, struct error *err)
{
    for (unsigned i = 0; i < MAKE_TRIES; i++) {
        OWNED_FD fd = -1;
        if (mkdir(path, 0755) != 0 && (i == 0 || errno != EEXIST))
            return failure(err, ERROR_UNAVAILABLE, "the control group %.160s can't be made: %s", path, strerror(errno));
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && is_at(AT_FDCWD, path, fd)) {
            *fd_out = fd;
            fd = -1;
            return SUCCESS;
        }
        (void)usleep(AGAIN_US);
    }
    return failure(err, ERROR_UNAVAILABLE, "the control group %.160s is removed or locked by another program", path);
}

static struct result make_folders(struct cgroup *cgroup, struct error *err)
{
    char path[CGROUP_PATH_SIZE + 64];

    for (size_t i = 0; i < cgroup->place->count; i++) {
        if (!path_of(cgroup->place, i, cgroup->name, path)) continue;
        TRY(make_folder(path, &cgroup->folders[i], err));
    }
    return SUCCESS;
}

struct result cgroup_new(const struct cgroup_place *place, const char *name, const struct run_limits *limits,
                         struct cgroup **cgroup_out, struct error *err)
{
    OWNED(cgroup) *cgroup = memory_zeroed(1, sizeof *cgroup);

    if (cgroup == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a control group");
    *cgroup = (struct cgroup){.isolation = place->isolation, .count = place->count, .place = place, .folders = {-1, -1, -1, -1}};
    (void)snprintf(cgroup->name, sizeof cgroup->name, "%s", name);
    TRY(make_folders(cgroup, err));
    if (place->isolation == ISOLATION_CGROUP_V1) TRY(limit_v1(cgroup, limits, err));
    if (place->isolation == ISOLATION_CGROUP_V2) TRY(limit_v2(cgroup, limits, err));
    *cgroup_out = GIVE(cgroup);
    return SUCCESS;
}

struct result cgroup_join(const struct cgroup *cgroup, struct error *err)
{
    for (size_t i = 0; i < cgroup->count; i++)
        if (cgroup->folders[i] >= 0 && !write_value(cgroup->folders[i], "cgroup.procs", "0"))
            return failure(err, ERROR_UNAVAILABLE, "a process can't join its control group: %s", strerror(errno));
    return SUCCESS;
}

/* The number after `label` at the start of a line; with "" the first number. -1: there is none. */
static int64_t number_in(const struct cgroup *cgroup, size_t which, const char *name, const char *label)
{
    char text[4096];
    uint64_t value = 0;

    if (cgroup->folders[which] < 0 || !read_value(cgroup->folders[which], name, text, sizeof text)) return -1;
    const char *at = strstr(text, label);
    if (at == NULL || (at != text && at[-1] != '\n')) return -1;
    at += strlen(label);
    if (!text_to_u64((struct bytes){(const uint8_t *)at, strcspn(at, "\n")}, INT64_MAX, &value)) return -1;
    return (int64_t)value;
}

void cgroup_read_use(const struct cgroup *cgroup, struct cgroup_use *use_out)
{
    struct cgroup_use use = {.cpu_us = -1, .memory_bytes = -1};

    if (cgroup->isolation == ISOLATION_CGROUP_V1) {
        const int64_t cpu_ns = number_in(cgroup, CPUACCT, "cpuacct.usage", "");
        use.cpu_us = cpu_ns < 0 ? -1 : cpu_ns / 1000;
        use.memory_bytes = number_in(cgroup, MEMORY, "memory.max_usage_in_bytes", "");
        use.was_out_of_memory = number_in(cgroup, MEMORY, "memory.oom_control", "oom_kill ") > 0;
    }
    if (cgroup->isolation == ISOLATION_CGROUP_V2) {
        use.cpu_us = number_in(cgroup, 0, "cpu.stat", "usage_usec ");
        use.memory_bytes = number_in(cgroup, 0, "memory.peak", "");
        use.was_out_of_memory = number_in(cgroup, 0, "memory.events", "oom_kill ") > 0;
    }
    *use_out = use;
}

static bool remove_folder(const char *path, int64_t until_ms)
{
    while (rmdir(path) != 0) {
        if (errno != EBUSY || clock_monotonic_ms() >= until_ms) return false;
        (void)usleep(AGAIN_US);
    }
    return true;
}

static void remove_all(const struct cgroup_place *place, const char *name, int64_t until_ms)
{
    char path[CGROUP_PATH_SIZE + 64];

    for (size_t i = 0; i < place->count; i++)
        if (path_of(place, i, name, path)) (void)remove_folder(path, until_ms);
}

static bool is_run(const char *name)
{
    const size_t length = strlen(CGROUP_RUN);

    return strncmp(name, CGROUP_RUN, length) == 0 && strlen(name) == length + RUN_DIGITS &&
           text_consists_of(bytes_of_text(name + length), "0123456789abcdef");
}

/* False: something runs in it. */
static bool sweep_one(int folder, const char *name)
{
    OWNED_FD group = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (group < 0 || flock(group, LOCK_EX | LOCK_NB) != 0 || !is_at(folder, name, group)) return true;
    return unlinkat(folder, name, AT_REMOVEDIR) == 0 || errno != EBUSY;
}

static bool sweep_folder(const char *path)
{
    OWNED_FD folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    OWNED_LISTING listing = folder < 0 ? NULL : file_list(folder);
    const char *name = NULL;
    struct error err = {0};
    bool is_clean = true;

    while (listing != NULL && file_list_next(listing, &name, &err).ok && name != NULL)
        if (is_run(name) && !sweep_one(folder, name)) is_clean = false;
    return is_clean;
}

bool cgroup_sweep(const struct cgroup_place *place)
{
    bool is_clean = true;

    for (size_t i = 0; i < place->count; i++)
        if (place->folders[i][0] != '\0' && !sweep_folder(place->folders[i])) is_clean = false;
    return is_clean;
}

void cgroup_free(struct cgroup *cgroup)
{
    if (cgroup == NULL) return;
    for (size_t i = 0; i < CGROUP_FOLDERS_MAX; i++) file_close_owned(&cgroup->folders[i]);
    remove_all(cgroup->place, cgroup->name, clock_monotonic_ms() + REMOVE_MS);
    free(cgroup);
}
