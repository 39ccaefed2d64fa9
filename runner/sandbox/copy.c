#include "runner/sandbox/copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "base/file.h"
#include "runner/sandbox/outputs.h"

#define FILES_MAX         100000             /* of code or an input; the manifest of a run can name fewer */
#define BYTES_MAX         (INT64_C(1) << 42) /* 4 TiB: the disk is full before */
#define PIECE_SIZE        ((size_t)64 * 1024 * 1024)
#define REMOVED_DEPTH_MAX 32
#define LINE_SIZE         (OUTPUT_PATH_MAX + DIGEST_TEXT_SIZE + 4)

struct copying {
    int folder; /* the copy */
    struct hasher *lines;
};

static struct result make_parents(int folder, const char *path, struct error *err)
{
    char parent[OUTPUT_PATH_MAX];

    for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        (void)snprintf(parent, sizeof parent, "%.*s", (int)(slash - path), path);
        if (mkdirat(folder, parent, 0755) == 0) (void)!fchmodat(folder, parent, 0755, 0); /* whatever the umask is */
        else if (errno != EEXIST)
            return failure(err, ERROR_UNAVAILABLE, "the folder %.120s can't be made: %s", parent, strerror(errno));
    }
    return SUCCESS;
}

struct result copy_file(int from, int64_t size, int folder, const char *path, unsigned mode, struct error *err)
{
    OWNED_FD to = -1;
    off_t at = 0;

    TRY(make_parents(folder, path, err));
    TRY(file_open_at(folder, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, &to, err));
    while (at < size) {
        const ssize_t sent = sendfile(to, from, &at, PIECE_SIZE);
        if (sent > 0 || (sent < 0 && errno == EINTR)) continue;
        if (sent == 0) return failure(err, ERROR_CONFLICT, "%.160s became shorter while it was copied", path);
        return failure(err, errno == ENOSPC || errno == EDQUOT ? ERROR_FULL : ERROR_UNAVAILABLE, "%.160s can't be copied: %s",
                       path, strerror(errno));
    }
    if (fchmod(to, mode) != 0) return failure(err, ERROR_UNAVAILABLE, "%.160s: %s", path, strerror(errno));
    return SUCCESS;
}

static struct result take(void *context, const struct output_file *file, struct error *err)
{
    struct copying *copying = context;
    char line[LINE_SIZE], digest[DIGEST_TEXT_SIZE];

    digest_format(&file->digest, digest);
    (void)snprintf(line, sizeof line, "%s  %s\n", digest, file->path);
    hasher_add(copying->lines, bytes_of_text(line));
    return copy_file(file->fd, file->size, copying->folder, file->path, (file->mode & 0111) != 0 ? 0555 : 0444, err);
}

static struct result copy_folder(const struct copy_source *source, int from, int to, struct digest *digest_out, struct error *err)
{
    OWNED(hasher) *lines = NULL;

    TRY(hasher_new(DIGEST_SHA256, &lines, err));
    struct copying copying = {.folder = to, .lines = lines};
    struct output_walk walk = {.what = source->what,
                               .rules = {.files_max = FILES_MAX, .bytes_max = BYTES_MAX, .takes_links = true},
                               .take = take,
                               .context = &copying};
    TRY(output_walk(&walk, from, err));
    *digest_out = hasher_digest(lines);
    return SUCCESS;
}

static struct result hash_copy(int folder, const char *name, int64_t size, struct digest *digest_out, struct error *err)
{
    OWNED(hasher) *hasher = NULL;
    OWNED_FD fd = -1;
    uint8_t piece[16384]; /* a few pages */
    size_t got = 0;

    TRY(hasher_new(DIGEST_SHA256, &hasher, err));
    TRY(file_open_at(folder, name, O_RDONLY | O_NOFOLLOW, 0, &fd, err));
    for (int64_t at = 0; at < size; at += (int64_t)got) {
        TRY(file_read_some(fd, piece, sizeof piece, (uint64_t)at, &got, err));
        if (got == 0) return failure(err, ERROR_CORRUPT, "the copy of %.160s is too short", name);
        hasher_add(hasher, (struct bytes){piece, got});
    }
    *digest_out = hasher_digest(hasher);
    return SUCCESS;
}

struct result copy_in(const struct copy_source *source, int folder, const char *name, struct digest *digest_out,
                      struct error *err)
{
    OWNED_FD from = -1;
    OWNED_FD to = -1;
    struct stat about;

    TRY(file_open(source->path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, &from, err));
    TRY(file_status(from, &about, err));
    if (S_ISREG(about.st_mode)) {
        TRY(copy_file(from, about.st_size, folder, name, 0444, err));
        return hash_copy(folder, name, about.st_size, digest_out, err);
    }
    if (!S_ISDIR(about.st_mode))
        return failure(err, ERROR_INVALID, "%s: %.160s is neither a file nor a folder", source->what, source->path);
    if (mkdirat(folder, name, 0700) != 0)
        return failure(err, ERROR_UNAVAILABLE, "no folder for %s: %s", source->what, strerror(errno));
    TRY(file_open_at(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &to, err));
    TRY(copy_folder(source, from, to, digest_out, err));
    return fchmod(to, 0755) == 0 ? SUCCESS : failure(err, ERROR_UNAVAILABLE, "%s: %s", source->what, strerror(errno));
}

struct removal {
    int top;        /* the folder that is removed */
    unsigned moved; /* folders that were too deep */
};

static struct result cant_remove(const char *name, struct error *err)
{
    return failure(err, ERROR_UNAVAILABLE, "%.160s can't be removed: %s", name, strerror(errno));
}

/* Folders in folders are as deep as somebody made them, and each open one needs a descriptor. So a deep one is moved up, and removed later. */
static struct result move_up(struct removal *removal, int folder, const char *name, struct error *err)
{
    char moved[32]; /* a number */

    (void)snprintf(moved, sizeof moved, ".moved-%u", removal->moved++);
    return renameat2(folder, name, removal->top, moved, RENAME_NOREPLACE) == 0 || errno == EEXIST ? SUCCESS
                                                                                                  : cant_remove(name, err);
}

static struct result remove_below(struct removal *removal, int folder, const char *name, int depth, struct error *err);

static struct result remove_entry(struct removal *removal, int folder, const char *name, int depth, struct error *err)
{
    if (unlinkat(folder, name, 0) == 0 || errno == ENOENT) return SUCCESS;
    if (errno != EISDIR && errno != EPERM) return cant_remove(name, err);
    (void)!fchmodat(folder, name, 0700, AT_SYMLINK_NOFOLLOW); /* whoever made it could forbid it to its owner */
    if (depth == REMOVED_DEPTH_MAX) return move_up(removal, folder, name, err);
    TRY(remove_below(removal, folder, name, depth, err));
    if (unlinkat(folder, name, AT_REMOVEDIR) == 0 || errno == ENOENT) return SUCCESS;
    return errno == ENOTEMPTY && depth == 0 ? SUCCESS : cant_remove(name, err);
}

static struct result remove_below(struct removal *removal, int folder, const char *name, int depth, struct error *err)
{
    OWNED_LISTING listing = NULL;
    const int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const char *entry = NULL;

    if (fd < 0 || (listing = fdopendir(fd)) == NULL) {
        const struct result failed = cant_remove(name, err);
        if (fd >= 0) (void)close(fd);
        return failed;
    }
    if (depth == 0) removal->top = fd;
    for (;;) {
        TRY(file_list_next(listing, &entry, err));
        if (entry == NULL) return SUCCESS;
        TRY(remove_entry(removal, fd, entry, depth + 1, err));
    }
}

struct result copy_remove(int folder, const char *name, struct error *err)
{
    struct removal removal = {.top = -1};
    unsigned before = 0;

    do {
        before = removal.moved;
        TRY(remove_entry(&removal, folder, name, 0, err));
        if (faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0) return SUCCESS;
    } while (removal.moved > before);
    errno = ENOTEMPTY;
    return cant_remove(name, err);
}

struct result copy_settle(int root, const char *name, struct error *err)
{
    OWNED_FD etc = openat(root, "etc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    OWNED_FD file = -1;
    struct stat about;

    if (etc < 0 && errno == ENOENT) return SUCCESS; /* then it is made in the sandbox */
    if (etc < 0) return failure(err, ERROR_INVALID, "/etc of the image is no folder");
    if (fstatat(etc, name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(about.st_mode)) return SUCCESS;
    if (unlinkat(etc, name, 0) != 0 && errno != ENOENT)
        return failure(err, ERROR_INVALID, "/etc/%.20s of the image is a folder", name);
    return file_open_at(etc, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644, &file, err);
}
