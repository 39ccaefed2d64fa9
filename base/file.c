#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fault.h"

/* NOLINTNEXTLINE(readability-non-const-parameter): the cleanup attribute demands this type */
void file_close_listing(DIR **listing)
{
    if (*listing != NULL) (void)closedir(*listing);
}

void file_close_owned(int *fd)
{
    if (*fd >= 0) (void)close(*fd);
}

/* Tests can make the next call fail as a broken disk does. */
static bool fails_on_demand(void)
{
    if (!fault_is_due(FAULT_FILE)) return false;
    errno = EIO;
    return true;
}

static struct result file_failure(struct error *err, const char *what, const char *path)
{
    const int reason = errno;
    enum error_kind kind = ERROR_UNAVAILABLE;

    if (reason == ENOSPC || reason == EDQUOT || reason == EFBIG) kind = ERROR_FULL;
    if (reason == ENOENT || reason == ENOTDIR) kind = ERROR_NOT_FOUND;
    if (reason == EEXIST) kind = ERROR_CONFLICT;
    if (reason == ENOMEM) kind = ERROR_NO_MEMORY;
    return failure(err, kind, "can't %s %s: %s", what, path, strerror(reason));
}

struct result file_open_at(int directory, const char *name, int flags, mode_t mode, int *fd_out, struct error *err)
{
    const int fd = fails_on_demand() ? -1 : openat(directory, name, flags | O_CLOEXEC, mode);

    if (fd < 0) return file_failure(err, "open", name);
    *fd_out = fd;
    return SUCCESS;
}

struct result file_open(const char *path, int flags, mode_t mode, int *fd_out, struct error *err)
{
    return file_open_at(AT_FDCWD, path, flags, mode, fd_out, err);
}

struct result file_open_beneath(int directory, const char *path, int flags, int *fd_out, struct error *err)
{
    const struct open_how how = {.flags = (uint64_t)(unsigned)flags | O_CLOEXEC, .resolve = RESOLVE_BENEATH};
    long fd = -1;

    for (unsigned attempt = 0; attempt == 0 || (fd < 0 && errno == EAGAIN && attempt < 100);
         attempt++) /* EAGAIN: a file was renamed meanwhile */
        fd = fails_on_demand() ? -1 : syscall(SYS_openat2, directory, path, &how, sizeof how);
    if (fd < 0 && errno == EXDEV) return failure(err, ERROR_DENIED, "%s leads out of the folder", path);
    if (fd < 0 && errno == ENOSYS) return failure(err, ERROR_INVALID, "this kernel can't open %s below a folder (openat2)", path);
    if (fd < 0) return file_failure(err, "open", path);
    *fd_out = (int)fd;
    return SUCCESS;
}

/* Linux before 5.12 has no RESOLVE_CACHED; then the answer is false. */
bool file_open_cached(int directory, const char *name, int *fd_out)
{
    const struct open_how how = {.flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_CACHED};
    const long fd = fails_on_demand() ? -1 : syscall(SYS_openat2, directory, name, &how, sizeof how);

    if (fd < 0) return false;
    *fd_out = (int)fd;
    return true;
}

struct result file_read_some(int fd, void *into, size_t length, uint64_t offset, size_t *length_out, struct error *err)
{
    size_t done = 0;

    while (done < length) {
        const ssize_t count = fails_on_demand() ? -1 : pread(fd, (uint8_t *)into + done, length - done, (off_t)(offset + done));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return file_failure(err, "read", "a file");
        if (count == 0) break;
        done += (size_t)count;
    }
    *length_out = done;
    return SUCCESS;
}

struct result file_read_at(int fd, void *into, size_t length, uint64_t offset, struct error *err)
{
    size_t done = 0;

    TRY(file_read_some(fd, into, length, offset, &done, err));
    if (done < length) return failure(err, ERROR_CORRUPT, "a file ends %zu bytes too early", length - done);
    return SUCCESS;
}

bool file_read_cached(int fd, void *into, size_t length, uint64_t offset)
{
    const struct iovec vector = {.iov_base = into, .iov_len = length};

    return !fails_on_demand() && preadv2(fd, &vector, 1, (off_t)offset, RWF_NOWAIT) == (ssize_t)length;
}

struct result file_write_at(int fd, const void *from, size_t length, uint64_t offset, struct error *err)
{
    size_t done = 0;

    while (done < length) {
        const ssize_t count =
            fails_on_demand() ? -1 : pwrite(fd, (const uint8_t *)from + done, length - done, (off_t)(offset + done));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return file_failure(err, "write", "a file");
        done += (size_t)count;
    }
    return SUCCESS;
}

struct result file_write_all(int fd, const void *from, size_t length, struct error *err)
{
    size_t done = 0;

    while (done < length) {
        const ssize_t count = fails_on_demand() ? -1 : write(fd, (const uint8_t *)from + done, length - done);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return file_failure(err, "write", "a file");
        done += (size_t)count;
    }
    return SUCCESS;
}

struct result file_sync(int fd, struct error *err)
{
    if (fails_on_demand() || fsync(fd) != 0) return file_failure(err, "fsync", "a file");
    return SUCCESS;
}

struct result file_sync_data(int fd, struct error *err)
{
    if (fails_on_demand() || fdatasync(fd) != 0) return file_failure(err, "fdatasync", "a file");
    return SUCCESS;
}

struct result file_status(int fd, struct stat *status_out, struct error *err)
{
    struct stat status = {0};

    if (fails_on_demand() || fstat(fd, &status) != 0) return file_failure(err, "stat", "a file");
    *status_out = status;
    return SUCCESS;
}

struct result file_status_at(int directory, const char *name, struct stat *status_out, struct error *err)
{
    struct stat status = {0};

    if (fails_on_demand() || fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return file_failure(err, "stat", name);
    *status_out = status;
    return SUCCESS;
}

struct result file_size(int fd, uint64_t *size_out, struct error *err)
{
    struct stat status = {0};

    TRY(file_status(fd, &status, err));
    *size_out = (uint64_t)status.st_size;
    return SUCCESS;
}

static struct result read_whole(const char *path, mode_t forbidden, struct buffer *content, struct error *err)
{
    OWNED_FD fd = -1;
    struct stat status = {0};
    uint8_t *destination = NULL;
    size_t length = 0;

    TRY(file_open(path, O_RDONLY, 0, &fd, err));
    TRY(file_status(fd, &status, err));
    if (S_ISDIR(status.st_mode)) return failure(err, ERROR_INVALID, "%s is a folder, and a file is expected", path);
    if ((status.st_mode & forbidden) != 0) return failure(err, ERROR_DENIED, "others may read it: chmod 600 %s", path);
    const uint64_t size = (uint64_t)status.st_size;
    if (size > content->maximum - content->length)
        return failure(err, ERROR_LIMIT, "%s has %llu bytes; at most %zu are read", path, (unsigned long long)size,
                       content->maximum);
    TRY(buffer_reserve(content, (size_t)size, &destination, err));
    TRY(file_read_some(fd, destination, (size_t)size, 0, &length, err));
    content->length += length;
    return SUCCESS;
}

struct result file_read(const char *path, struct buffer *content, struct error *err)
{
    return read_whole(path, 0, content, err);
}

struct result file_read_private(const char *path, struct buffer *content, struct error *err)
{
    return read_whole(path, 077, content, err);
}

static struct result write_new(int directory, const char *name, struct bytes content, mode_t mode, struct error *err)
{
    OWNED_FD fd = -1;

    TRY(file_open_at(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode, &fd, err));
    TRY(file_write_all(fd, content.data, content.length, err));
    return file_sync(fd, err);
}

static bool temporary_name(const char *name, char temporary[NAME_MAX + 1])
{
    return snprintf(temporary, NAME_MAX + 1, ".%s.new", name) <= NAME_MAX;
}

void file_remove_at(int directory, const char *name)
{
    char temporary[NAME_MAX + 1];

    (void)unlinkat(directory, name, 0);
    if (temporary_name(name, temporary)) (void)unlinkat(directory, temporary, 0);
}

struct result file_replace_at(int directory, const char *name, struct bytes content, mode_t mode, struct error *err)
{
    char temporary[NAME_MAX + 1];

    if (!temporary_name(name, temporary)) return failure(err, ERROR_INVALID, "a file name of %zu characters", strlen(name));
    (void)unlinkat(directory, temporary, 0);
    struct result replaced = write_new(directory, temporary, content, mode, err);
    if (replaced.ok) replaced = file_rename_at(directory, temporary, name, err);
    if (!replaced.ok) (void)unlinkat(directory, temporary, 0);
    return replaced;
}

/* Opens the parent folder of `path` and returns the last part of the path. */
static struct result open_parent(const char *path, int *directory_out, char name_out[NAME_MAX + 1], struct error *err)
{
    char copy[PATH_MAX];
    const size_t length = strlen(path);

    if (length == 0 || length >= sizeof copy) return failure(err, ERROR_INVALID, "a path of %zu characters", length);
    memcpy(copy, path, length + 1);
    while (strlen(copy) > 1 && copy[strlen(copy) - 1] == '/') copy[strlen(copy) - 1] = '\0';
    char *slash = strrchr(copy, '/');
    const char *name = slash == NULL ? copy : slash + 1;
    if (name[0] == '\0' || strlen(name) > NAME_MAX) return failure(err, ERROR_INVALID, "%s is no file name", path);
    if (slash != NULL) *slash = '\0';
    const char *folder = slash == NULL ? "." : copy[0] == '\0' ? "/" : copy;
    TRY(file_open(folder, O_RDONLY | O_DIRECTORY, 0, directory_out, err));
    memcpy(name_out, name, strlen(name) + 1);
    return SUCCESS;
}

struct result file_replace(const char *path, struct bytes content, mode_t mode, struct error *err)
{
    OWNED_FD directory = -1;
    char name[NAME_MAX + 1];

    TRY(open_parent(path, &directory, name, err));
    return file_replace_at(directory, name, content, mode, err);
}

static bool is_standard_output(const struct stat *status)
{
    struct stat standard;

    return fstat(STDOUT_FILENO, &standard) == 0 && standard.st_dev == status->st_dev && standard.st_ino == status->st_ino;
}

/* `found` was opened with O_PATH: the kernel followed the symbolic links, by its own rules of protection. */
static struct result write_opened(int found, struct bytes content, mode_t mode, struct error *err)
{
    OWNED_FD fd = -1;
    struct stat status = {0};
    char name[64], target[PATH_MAX];

    TRY(file_status(found, &status, err));
    if (S_ISDIR(status.st_mode)) return failure(err, ERROR_INVALID, "it is a folder");
    if (is_standard_output(&status)) return file_write_all(STDOUT_FILENO, content.data, content.length, err);
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", found);
    if (!S_ISREG(status.st_mode) || status.st_nlink == 0) {
        TRY(file_open(name, O_WRONLY | O_NOCTTY, 0, &fd, err));
        return file_write_all(fd, content.data, content.length, err);
    }
    const ssize_t length = fails_on_demand() ? -1 : readlink(name, target, sizeof target);
    if (length < 0) return file_failure(err, "read", name);
    if (length >= (ssize_t)sizeof target) return failure(err, ERROR_INVALID, "its path is too long");
    target[length] = '\0';
    return file_replace(target, content, mode, err);
}

struct result file_write_output(const char *path, struct bytes content, mode_t mode, struct error *err)
{
    OWNED_FD found = -1;
    struct stat link;

    if (strcmp(path, "-") == 0) return file_write_all(STDOUT_FILENO, content.data, content.length, err);
    const struct result opened = file_open(path, O_PATH, 0, &found, err);
    if (opened.ok) return write_opened(found, content, mode, err);
    if (err->kind != ERROR_NOT_FOUND) return opened;
    if (lstat(path, &link) == 0)
        return failure(err, ERROR_INVALID, "%s is a link to nothing: remove it, or make the file it names", path);
    return file_replace(path, content, mode, err);
}

struct result file_make_directory(const char *path, mode_t mode, struct error *err)
{
    OWNED_FD directory = -1;
    char name[NAME_MAX + 1];

    TRY(open_parent(path, &directory, name, err));
    if (fails_on_demand() || (mkdirat(directory, name, mode) != 0 && errno != EEXIST))
        return file_failure(err, "make the folder", path);
    return file_sync(directory, err);
}

struct result file_rename_at(int directory, const char *from, const char *to, struct error *err)
{
    if (fails_on_demand() || renameat(directory, from, directory, to) != 0) return file_failure(err, "rename", from);
    return file_sync(directory, err);
}

struct result file_rename(const char *from, const char *to, struct error *err)
{
    OWNED_FD directory = -1;
    char name[NAME_MAX + 1];
    const char *slash = strrchr(from, '/');

    TRY(open_parent(to, &directory, name, err));
    return file_rename_at(directory, slash == NULL ? from : slash + 1, name, err);
}

struct result file_is_there(const char *path, bool *there_out, struct error *err)
{
    const bool is_there = !fails_on_demand() && access(path, F_OK) == 0;

    if (!is_there && errno != ENOENT && errno != ENOTDIR) return file_failure(err, "look for", path);
    *there_out = is_there;
    return SUCCESS;
}

DIR *file_list(int folder)
{
    const int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = copy < 0 ? NULL : fdopendir(copy);

    if (listing != NULL || copy < 0) return listing;
    const int why = errno;
    (void)close(copy);
    errno = why;
    return NULL;
}

struct result file_list_next(DIR *listing, const char **name_out, struct error *err)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = fails_on_demand() ? NULL : readdir(listing);
        if (entry == NULL && errno != 0) return file_failure(err, "list", "a folder");
        if (entry != NULL && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)) continue;
        *name_out = entry == NULL ? NULL : entry->d_name;
        return SUCCESS;
    }
}
