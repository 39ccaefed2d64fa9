#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "storage/driver_fs_priv.h"

enum {
    FAN_OUT = 256,
    HEX_LENGTH = 32,
};

static void format_path(const struct uuid *blob, const char *suffix, char out[FS_PATH_SIZE])
{
    char digits[HEX_LENGTH + 1];

    text_hex(blob->bytes, sizeof blob->bytes, digits);
    (void)snprintf(out, FS_PATH_SIZE, "%.2s/%s.%s", digits, digits, suffix);
}

void fs_extent_path(const struct uuid *blob, uint32_t part, char out[FS_PATH_SIZE])
{
    char suffix[16]; /* 'e' and ten digits */

    (void)snprintf(suffix, sizeof suffix, "e%" PRIu32, part);
    format_path(blob, suffix, out);
}

struct result fs_open_folder(int root, const char *path, int *folder_out, struct error *err)
{
    const char name[3] = {path[0], path[1], '\0'};

    return file_open_at(root, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, folder_out, err);
}

/* Makes the creation or removal of a name durable. */
struct result fs_sync_folder(int root, const char *path, struct error *err)
{
    OWNED_FD folder = -1;

    TRY(fs_open_folder(root, path, &folder, err));
    return file_sync(folder, err);
}

bool fs_set_direct(int file, bool wanted, bool *is_direct)
{
    if (*is_direct == wanted) return true;
    if (fault_is_due(FAULT_FILE) || fcntl(file, F_SETFL, wanted ? O_DIRECT : 0) != 0) return false;
    *is_direct = wanted;
    return true;
}

/* ---- Small objects ---- */

static struct result write_small(int root, const char *path, struct bytes content, struct error *err)
{
    OWNED_FD file = -1;

    TRY(file_open_at(root, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, &file, err));
    struct result result = file_write_all(file, content.data, content.length, err);
    if (result.ok) result = file_sync(file, err);
    if (result.ok) result = fs_sync_folder(root, path, err);
    if (!result.ok) (void)unlinkat(root, path, 0);
    return result;
}

static struct result fs_small_put(struct driver *driver, const struct uuid *blob, const char *name, struct bytes content,
                                  struct error *err)
{
    char path[FS_PATH_SIZE];

    format_path(blob, name, path);
    return write_small(fs_of(driver)->root, path, content, err);
}

static struct result fs_small_get(struct driver *driver, const struct uuid *blob, const char *name, struct buffer *content,
                                  struct error *err)
{
    OWNED_FD file = -1;
    char path[FS_PATH_SIZE];
    uint64_t size = 0;
    uint8_t *destination = NULL;

    format_path(blob, name, path);
    TRY(file_open_at(fs_of(driver)->root, path, O_RDONLY | O_NOFOLLOW, 0, &file, err));
    TRY(file_size(file, &size, err));
    if (size > content->maximum - content->length) return failure(err, ERROR_LIMIT, "%s has %" PRIu64 " bytes", path, size);
    TRY(buffer_reserve(content, (size_t)size, &destination, err));
    TRY(file_read_at(file, destination, (size_t)size, 0, err));
    content->length += (size_t)size;
    return SUCCESS;
}

static struct result fs_small_remove(struct driver *driver, const struct uuid *blob, const char *name, struct error *err)
{
    char path[FS_PATH_SIZE];

    format_path(blob, name, path);
    if (fault_is_due(FAULT_FILE) || (unlinkat(fs_of(driver)->root, path, 0) != 0 && errno != ENOENT))
        return failure(err, ERROR_UNAVAILABLE, "can't remove %s: %s", path, strerror(errno));
    return SUCCESS;
}

/* ---- Listing and removing ---- */

/* "<32 hex digits>.e<number>" or "<32 hex digits>.<name>"; false for a foreign file. */
static bool parse_name(const char *name, struct driver_entry *entry_out)
{
    struct driver_entry entry = {0};
    const size_t length = strlen(name);
    uint64_t part = 0;

    if (length <= HEX_LENGTH + 1 || length > HEX_LENGTH + 1 + DRIVER_NAME_MAX || name[HEX_LENGTH] != '.' ||
        !text_from_hex((struct bytes){(const uint8_t *)name, HEX_LENGTH}, entry.blob.bytes, sizeof entry.blob.bytes))
        return false;
    const char *suffix = name + HEX_LENGTH + 1;
    entry.is_extent = suffix[0] == 'e' && text_to_u64(bytes_of_text(suffix + 1), UINT32_MAX, &part);
    entry.part = (uint32_t)part;
    if (!entry.is_extent) memcpy(entry.name, suffix, strlen(suffix));
    *entry_out = entry;
    return true;
}

static struct result open_listing(int root, const char *path, DIR **listing_out, struct error *err)
{
    OWNED_FD folder = -1;

    TRY(fs_open_folder(root, path, &folder, err));
    DIR *listing = fault_is_due(FAULT_FILE) ? NULL : fdopendir(folder);
    if (listing == NULL) return failure(err, ERROR_UNAVAILABLE, "can't list the folder %.2s", path);
    folder = -1;
    *listing_out = listing;
    return SUCCESS;
}

/* The next file of ours, or NULL at the end. */
static struct result next_entry(DIR *listing, struct driver_entry *entry_out, const char **name_out, struct error *err)
{
    const char *name = NULL;

    do TRY(file_list_next(listing, &name, err));
    while (name != NULL && !parse_name(name, entry_out));
    *name_out = name;
    return SUCCESS;
}

static bool is_kept(const struct driver_entry *entry, const uint32_t *kept, size_t count)
{
    for (size_t i = 0; entry->is_extent && i < count; i++)
        if (kept[i] == entry->part) return true;
    return false;
}

static struct result fs_remove(struct driver *driver, const struct uuid *blob, const uint32_t *kept_parts, size_t kept_count,
                               struct error *err)
{
    OWNED_LISTING listing = NULL;
    struct driver_entry entry;
    char path[FS_PATH_SIZE];
    const char *name = NULL;

    format_path(blob, "", path);
    TRY(open_listing(fs_of(driver)->root, path, &listing, err));
    for (;;) {
        TRY(next_entry(listing, &entry, &name, err));
        if (name == NULL) return file_sync(dirfd(listing), err);
        if (!uuid_equal(&entry.blob, blob) || is_kept(&entry, kept_parts, kept_count)) continue;
        if (fault_is_due(FAULT_FILE) || (unlinkat(dirfd(listing), name, 0) != 0 && errno != ENOENT))
            return failure(err, ERROR_UNAVAILABLE, "can't remove %s: %s", name, strerror(errno));
    }
}

static struct result list_folder(DIR *listing, driver_visit *visit, void *context, struct error *err)
{
    struct driver_entry entry;
    struct stat status;
    const char *name = NULL;

    for (;;) {
        TRY(next_entry(listing, &entry, &name, err));
        if (name == NULL) return SUCCESS;
        const struct result looked = file_status_at(dirfd(listing), name, &status, err);
        if (!looked.ok && err->kind == ERROR_NOT_FOUND) continue; /* it was removed in the meantime */
        TRY(looked);
        entry.size_bytes = (uint64_t)status.st_size;
        entry.modified_ms = (int64_t)status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1000000;
        TRY(visit(context, &entry, err));
    }
}

static struct result fs_list(struct driver *driver, driver_visit *visit, void *context, struct error *err)
{
    for (unsigned i = 0; i < FAN_OUT; i++) {
        OWNED_LISTING listing = NULL;
        char folder[3];

        (void)snprintf(folder, sizeof folder, "%02x", i & 0xff);
        TRY(open_listing(fs_of(driver)->root, folder, &listing, err));
        TRY(list_folder(listing, visit, context, err));
    }
    return SUCCESS;
}

/* ---- The folder itself ---- */

static void fs_close(struct driver *driver)
{
    fs_queues_done(&fs_of(driver)->queues);
    fs_streams_done(&fs_of(driver)->streams);
    (void)close(fs_of(driver)->root);
    free(fs_of(driver)->path);
    free(fs_of(driver));
}

static struct result unusable(const char *why, struct error *err)
{
    return failure(err, ERROR_INVALID, "its folder %s", why);
}

/* The path must still name the folder that was opened. Otherwise the folder was removed or unmounted, or covered by another
 * mount. */
struct result fs_check_root(const struct fs_driver *fs, struct error *err)
{
    struct stat opened, named;

    if (fstat(fs->root, &opened) != 0) return unusable(strerror(errno), err);
    if (stat(fs->path, &named) != 0) return unusable(errno == ENOENT ? "is missing" : strerror(errno), err);
    if (opened.st_dev != named.st_dev || opened.st_ino != named.st_ino) return unusable("is another one than at the start", err);
    return SUCCESS;
}

static struct result fs_check(struct driver *driver, struct error *err)
{
    const struct fs_driver *fs = fs_of(driver);
    char text[64];

    TRY(fs_check_root(fs, err));
    for (unsigned i = 0; i <= FAN_OUT; i++) {
        char folder[3] = ".";
        if (i < FAN_OUT) (void)snprintf(folder, sizeof folder, "%02x", i & 0xff);
        if (faccessat(fs->root, folder, R_OK | W_OK | X_OK, AT_EACCESS) == 0) continue;
        (void)snprintf(text, sizeof text, "can't be read and written: %.36s", strerror(errno));
        return unusable(text, err);
    }
    return SUCCESS;
}

static struct result fs_room(struct driver *driver, struct driver_room *room_out, struct error *err)
{
    struct statvfs status;

    if (fault_is_due(FAULT_FILE) || fstatvfs(fs_of(driver)->root, &status) != 0)
        return failure(err, ERROR_UNAVAILABLE, "its file system does not tell its free space: %s", strerror(errno));
    room_out->size_bytes = (uint64_t)status.f_blocks * status.f_frsize;
    room_out->free_bytes = (uint64_t)status.f_bavail * status.f_frsize;
    return SUCCESS;
}

static const struct driver_operations fs_operations = {
    .kind = "fs",
    .is_flat = false,
    .extent_create = fs_extent_create,
    .extent_part = fs_extent_part,
    .extent_append = fs_extent_append,
    .extent_sync = fs_extent_sync,
    .extent_finish = fs_extent_finish,
    .extent_discard = fs_extent_discard,
    .extent_close = fs_extent_close,
    .part_open = fs_part_open,
    .part_size = fs_part_size,
    .part_read = fs_part_read,
    .part_read_cached = fs_part_read_cached,
    .part_open_cached = fs_part_open_cached,
    .part_ahead = fs_part_ahead,
    .part_pull = fs_part_pull,
    .part_forget = fs_part_forget,
    .part_close = fs_part_close,
    .small_put = fs_small_put,
    .small_get = fs_small_get,
    .small_remove = fs_small_remove,
    .remove = fs_remove,
    .list = fs_list,
    .check = fs_check,
    .survey = fs_survey,
    .mark = fs_mark,
    .room = fs_room,
    .close = fs_close,
};

/*
 * Blobs of different folders are unrelated, so ext4 may spread the folders over its block groups. If all were in one group,
 * ext4 would examine each inode deleted there in the last minutes for every new file. Other file systems ignore the flag.
 */
static void spread_folders(int root)
{
    int flags = 0;

    if (ioctl(root, FS_IOC_GETFLAGS, &flags) != 0) return;
    flags |= FS_TOPDIR_FL;
    (void)ioctl(root, FS_IOC_SETFLAGS, &flags);
}

static struct result make_folders(int root, struct error *err)
{
    for (unsigned i = 0; i < FAN_OUT; i++) {
        char folder[3];

        (void)snprintf(folder, sizeof folder, "%02x", i & 0xff);
        if (fault_is_due(FAULT_FILE) || (mkdirat(root, folder, 0700) != 0 && errno != EEXIST))
            return failure(err, errno == ENOSPC ? ERROR_FULL : ERROR_UNAVAILABLE, "can't make the folder %s: %s", folder,
                           strerror(errno));
    }
    return file_sync(root, err);
}

NO_LEAK_BEGIN /* the caller owns the struct through its first member; fs_close() frees it */
    struct result
    driver_fs_open(const char *root, uint64_t cached_max, struct driver **driver_out, struct error *err)
{
    OWNED_FD folder = -1;

    TRY(file_make_directory(root, 0700, err));
    TRY(file_open(root, O_RDONLY | O_DIRECTORY, 0, &folder, err));
    spread_folders(folder);
    TRY(make_folders(folder, err));
    OWNED_STRING path = memory_copy_text(root, strlen(root));
    struct fs_driver *fs = path == NULL ? NULL : memory_zeroed(1, sizeof *fs);
    if (fs == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a driver");
    fs->path = path;
    path = NULL;
    fs->driver.operations = &fs_operations;
    fs->root = folder;
    fs->cached_max = cached_max;
    (void)pthread_mutex_init(&fs->queues.lock, NULL);
    (void)pthread_mutex_init(&fs->streams.lock, NULL);
    folder = -1;
    *driver_out = &fs->driver;
    return SUCCESS;
}
NO_LEAK_END

void driver_mark_read(struct bytes content, char mark_out[DRIVER_MARK_SIZE])
{
    const size_t digits = DRIVER_MARK_SIZE - 1;
    const bool is_good = content.length == digits + 1 && content.data[digits] == '\n' &&
                         text_consists_of((struct bytes){content.data, digits}, "0123456789abcdef");

    memcpy(mark_out, is_good ? (const char *)content.data : "?", is_good ? digits : 2);
    mark_out[is_good ? digits : 1] = '\0';
}

void driver_free(struct driver *driver)
{
    if (driver != NULL) driver->operations->close(driver);
}
