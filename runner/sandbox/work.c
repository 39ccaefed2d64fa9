#include "runner/sandbox/work.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "crypto/random.h"
#include "runner/sandbox/copy.h"

#define PREFIX     CGROUP_RUN
#define RANDOM_MAX 16 /* bytes */

static struct result open_base(const char *path, int *base_out, struct error *err)
{
    OWNED_FD base = -1;
    struct stat about;

    if (mkdir(path, 0711) == 0) (void)chmod(path, 0711);
    TRY(file_open(path, O_RDONLY | O_DIRECTORY, 0, &base, err));
    TRY(file_status(base, &about, err));
    if (about.st_uid != geteuid() || (about.st_mode & 022) != 0)
        return failure(err, ERROR_DENIED,
                       "%.160s must belong to user %u, and no other user may write to it: name another with --work", path,
                       geteuid());
    *base_out = base;
    base = -1;
    return SUCCESS;
}

/* If the lock of a folder is free, its runner is gone. */
static struct result sweep_one(int base, const char *name, struct error *err)
{
    OWNED_FD folder = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (folder < 0 || flock(folder, LOCK_EX | LOCK_NB) != 0) return SUCCESS;
    return copy_remove(base, name, err);
}

static struct result sweep(int base, struct error *err)
{
    OWNED_LISTING listing = file_list(base);
    const char *name = NULL;

    if (listing == NULL) return failure(err, ERROR_UNAVAILABLE, "the folder of runs can't be listed: %s", strerror(errno));
    for (;;) {
        TRY(file_list_next(listing, &name, err));
        if (name == NULL) return SUCCESS;
        if (strncmp(name, PREFIX, sizeof PREFIX - 1) == 0) TRY(sweep_one(base, name, err));
    }
}

static struct result make(struct work *work, gid_t group, struct error *err)
{
    uint8_t random[RANDOM_MAX];

    random_bytes(random, sizeof random);
    memcpy(work->name, PREFIX, sizeof PREFIX - 1);
    text_hex(random, sizeof random, work->name + sizeof PREFIX - 1);
    work->name[sizeof PREFIX - 1 + 2 * sizeof random] = '\0';
    if (mkdirat(work->base, work->name, 0700) != 0)
        return failure(err, errno == ENOSPC ? ERROR_FULL : ERROR_UNAVAILABLE, "no folder for a run: %s", strerror(errno));
    TRY(file_open_at(work->base, work->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &work->folder, err));
    if (flock(work->folder, LOCK_EX | LOCK_NB) != 0 || fchown(work->folder, (uid_t)-1, group) != 0 ||
        fchmod(work->folder, 0710) != 0)
        return failure(err, ERROR_UNAVAILABLE, "the folder of a run: %s", strerror(errno));
    return SUCCESS;
}

/* It keeps another runner from removing a folder that is new and has no lock yet. */
static struct result lock_base(int base, const char *path, struct error *err)
{
    return flock(base, LOCK_EX) == 0 ? SUCCESS : failure(err, ERROR_UNAVAILABLE, "%.160s: %s", path, strerror(errno));
}

struct result work_sweep(const char *base, const struct cgroup_place *place, bool *is_clean_out, struct error *err)
{
    OWNED_FD folder = -1;

    TRY(open_base(base, &folder, err));
    TRY(lock_base(folder, base, err));
    TRY(sweep(folder, err));
    *is_clean_out = cgroup_sweep(place);
    return SUCCESS;
}

struct result work_open(const char *base, gid_t group, const struct cgroup_place *place, struct work *work_out, struct error *err)
{
    struct work work = WORK_NONE;

    if (strlen(base) + WORK_NAME_SIZE >= WORK_PATH_SIZE)
        return failure(err, ERROR_LIMIT, "the path of the work folder is too long");
    TRY(open_base(base, &work.base, err));
    struct result done = lock_base(work.base, base, err);
    if (done.ok) done = sweep(work.base, err);
    (void)cgroup_sweep(place);
    if (done.ok) done = make(&work, group, err);
    (void)flock(work.base, LOCK_UN);
    (void)snprintf(work.path, sizeof work.path, "%s/%s", base, work.name);
    if (done.ok) *work_out = work;
    else {
        file_close_owned(&work.base);
        file_close_owned(&work.folder);
    }
    return done;
}

struct result work_remove(struct work *work, struct error *err)
{
    if (work->base < 0) return SUCCESS;
    const struct result done = copy_remove(work->base, work->name, err);
    file_close_owned(&work->folder);
    file_close_owned(&work->base);
    *work = WORK_NONE;
    return done;
}
