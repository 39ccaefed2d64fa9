#include "runner/image/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "runner/sandbox/copy.h"

struct walk {
    const struct tree_limits *limits;
    int64_t bytes, files;
    bool settles;
};

static struct result count(struct walk *walk, const struct stat *about, struct error *err)
{
    walk->files++;
    walk->bytes += about->st_size / (int64_t)(about->st_nlink > 0 && S_ISREG(about->st_mode) ? about->st_nlink : 1);
    if (walk->files > walk->limits->files_max)
        return failure(err, ERROR_LIMIT, "the image has more than %lld files", (long long)walk->limits->files_max);
    if (walk->bytes <= walk->limits->bytes_max) return SUCCESS;
    return failure(err, ERROR_LIMIT, "the unpacked image has more than %lld bytes", (long long)walk->limits->bytes_max);
}

/* The owner can read all, and can remove all. */
static struct result settle(int folder, const char *name, const struct stat *about, struct error *err)
{
    const mode_t mode = (about->st_mode & 0777) | (S_ISDIR(about->st_mode) ? 0700 : 0400);

    if (S_ISLNK(about->st_mode)) return SUCCESS;
    if (!S_ISREG(about->st_mode) && !S_ISDIR(about->st_mode))
        return failure(err, ERROR_INVALID, "the image has a device, pipe or socket: %.120s", name);
    if (mode == (about->st_mode & 07777) || fchmodat(folder, name, mode, AT_SYMLINK_NOFOLLOW) == 0) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "%.120s of the image: %s", name, strerror(errno));
}

/* A folder that its maker has closed to its owner would hide what is in it. In the end all are open to their owner (settle()). */
static int open_folder(int parent, const char *name)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, fd = openat(parent, name, flags);

    if (fd >= 0 || errno != EACCES || fchmodat(parent, name, 0700, AT_SYMLINK_NOFOLLOW) != 0) return fd;
    return openat(parent, name, flags);
}

static struct result walk_folder(struct walk *walk, int parent, const char *name, int depth, struct error *err);

static struct result take(struct walk *walk, int folder, const char *name, int depth, struct error *err)
{
    struct stat about;

    if (fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) != 0) {
        if (!walk->settles) return SUCCESS; /* it has gone away */
        return failure(err, ERROR_UNAVAILABLE, "%.120s of the image: %s", name, strerror(errno));
    }
    TRY(count(walk, &about, err));
    if (walk->settles) TRY(settle(folder, name, &about, err));
    return S_ISDIR(about.st_mode) ? walk_folder(walk, folder, name, depth + 1, err) : SUCCESS;
}

static struct result walk_folder(struct walk *walk, int parent, const char *name, int depth, struct error *err)
{
    OWNED_LISTING listing = NULL;
    const char *entry = NULL;

    if (depth > TREE_DEPTH_MAX) return failure(err, ERROR_INVALID, "the image has folders more than %d deep", TREE_DEPTH_MAX);
    const int fd = open_folder(parent, name);
    if (fd < 0 && !walk->settles) return SUCCESS;
    if (fd < 0 || (listing = fdopendir(fd)) == NULL) {
        const struct result failed = failure(err, ERROR_UNAVAILABLE, "%.120s of the image: %s", name, strerror(errno));
        if (fd >= 0) (void)close(fd);
        return failed;
    }
    for (;;) {
        TRY(file_list_next(listing, &entry, err));
        if (entry == NULL) return SUCCESS;
        TRY(take(walk, fd, entry, depth, err));
    }
}

struct result tree_measure(int root, const struct tree_limits *limits, struct error *err)
{
    struct walk walk = {.limits = limits};

    return walk_folder(&walk, root, ".", 0, err);
}

struct result tree_settle(int root, const struct tree_limits *limits, struct error *err)
{
    struct walk walk = {.limits = limits, .settles = true};

    TRY(walk_folder(&walk, root, ".", 0, err));
    return copy_settle(root, "passwd", err);
}
