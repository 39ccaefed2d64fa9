/* A control group that root gives to a program of another user. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "runner/sandbox/cgroup.h"

#define PROGRAM \
    "/program" /* version 2: where the program itself is, because a group with processes can't have groups with limits */

/* Who owns these files of a group may make groups below it, and move its own processes between them (cgroups(7), "Delegation"). */
static const char *const given_files[] = {"cgroup.procs", "cgroup.subtree_control", "cgroup.threads", "tasks"};

static struct result give_folder(const char *path, uid_t user, gid_t group, struct error *err)
{
    OWNED_FD folder = -1;

    if (mkdir(path, 0755) != 0 && errno != EEXIST)
        return failure(err, ERROR_UNAVAILABLE, "the control group %.180s can't be made: %s", path, strerror(errno));
    TRY(file_open(path, O_RDONLY | O_DIRECTORY, 0, &folder, err));
    if (fchown(folder, user, group) != 0)
        return failure(err, ERROR_UNAVAILABLE, "the control group %.180s can't be given away: %s", path, strerror(errno));
    for (size_t i = 0; i < sizeof given_files / sizeof given_files[0]; i++)
        if (fchownat(folder, given_files[i], user, group, 0) != 0 && errno != ENOENT)
            return failure(err, ERROR_UNAVAILABLE, "%.20s of %.160s can't be given away: %s", given_files[i], path,
                           strerror(errno));
    return SUCCESS;
}

static struct result find(struct cgroup_place *place, struct error *err)
{
    char own[CGROUP_PATH_SIZE];
    struct error why = {0};

    const bool is_aside = cgroup_step_aside(own, &why).ok;
    if (!is_aside && why.kind != ERROR_NOT_FOUND) return failure(err, why.kind, "%s", why.message);
    cgroup_find(is_aside ? own : NULL, place);
    return place->isolation != ISOLATION_RLIMITS ? SUCCESS : failure(err, ERROR_NOT_FOUND, "%s", place->lacks);
}

struct result cgroup_give(const char *name, uid_t user, gid_t group, struct cgroup_place *given_out, struct error *err)
{
    char path[CGROUP_PATH_SIZE + 64], program[CGROUP_PATH_SIZE + sizeof PROGRAM];
    struct cgroup_place given;

    TRY(find(&given, err));
    for (size_t i = 0; i < given.count; i++) {
        if (given.folders[i][0] == '\0') continue;
        if (snprintf(path, sizeof path, "%s/%.48s", given.folders[i], name) >= CGROUP_PATH_SIZE)
            return failure(err, ERROR_LIMIT, "the path of a control group is too long: %.180s", path);
        TRY(give_folder(path, user, group, err));
        (void)snprintf(given.folders[i], CGROUP_PATH_SIZE, "%.511s", path);
    }
    if (given.isolation == ISOLATION_CGROUP_V2) {
        (void)snprintf(program, sizeof program, "%s" PROGRAM, given.folders[0]);
        TRY(give_folder(program, user, group, err));
    }
    *given_out = given;
    return SUCCESS;
}

static const char *below(const struct cgroup_place *given)
{
    return given->isolation == ISOLATION_CGROUP_V2 ? PROGRAM : "";
}

struct result cgroup_enter(const struct cgroup_place *given, struct error *err)
{
    char path[CGROUP_PATH_SIZE + 64];

    for (size_t i = 0; i < given->count; i++) {
        OWNED_FD procs = -1;
        if (given->folders[i][0] == '\0') continue;
        (void)snprintf(path, sizeof path, "%s%s/cgroup.procs", given->folders[i], below(given));
        TRY(file_open(path, O_WRONLY, 0, &procs, err));
        if (write(procs, "0", 1) != 1)
            return failure(err, ERROR_UNAVAILABLE, "the control group %.180s can't be joined: %s", path, strerror(errno));
    }
    return SUCCESS;
}

void cgroup_take_back(const struct cgroup_place *given)
{
    char path[CGROUP_PATH_SIZE + sizeof PROGRAM];

    for (size_t i = 0; i < given->count; i++) {
        if (given->folders[i][0] == '\0') continue;
        (void)snprintf(path, sizeof path, "%s" PROGRAM, given->folders[i]);
        if (given->isolation == ISOLATION_CGROUP_V2) (void)rmdir(path);
        (void)rmdir(given->folders[i]);
    }
}
