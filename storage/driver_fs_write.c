/*
 * An extent is written into the page cache up to a configured size, because small blobs are often pulled right after they
 * were pushed. A longer extent uses direct I/O from there on, while the caller hashes and seals the next bytes;
 * docs/decisions/0043-a-size-for-the-page-cache.md.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/file_queue.h"
#include "base/memory.h"
#include "storage/driver_fs_priv.h"

enum {
    WRITES_MAX = 2,             /* measured: with one write running and one waiting, a disk is never idle */
    PARTS_MAX = 1 << 20,        /* attempts to find a free extent number; far more than an upload may have */
    LONG_APPEND = 256 << 10,    /* shorter appends are the end of an extent, or come from a slow client */
    ROOM_MIN = 2 << 20,         /* the first reservation in bytes; each later one doubles the reserved space ... */
    ROOM_MAX = 16 << 20,        /* ... but reserves at most this; a crash may leave so much unused space after an extent */
    PUSH_OUT_EVERY = 512 << 10, /* each time after this many bytes the kernel is asked to start writing, so that fsync is short */
};
_Static_assert((int)WRITES_MAX <= DRIVER_APPENDS_HELD, "callers keep the bytes long enough");

struct fs_extent {
    struct fs_driver *fs;
    int file;
    uint32_t part;
    bool is_named;       /* the folder was fsynced after the file was created */
    bool is_open_direct; /* the file has O_DIRECT now */
    bool has_direct;     /* a part was written with direct I/O, and the rest is as well */
    bool is_refused;     /* direct I/O does not work here */
    bool is_roomless;    /* no more space can be reserved; space that was reserved before stays */
    uint64_t written, pushed_out, room, expected;
    struct file_queue *queue; /* while writes are pending */
    char path[FS_PATH_SIZE];
};

static struct fs_extent *extent_of(struct driver_extent *extent)
{
    return (struct fs_extent *)extent;
}

/* ---- Queues ---- */

static struct result take_queue(struct fs_queues *queues, struct file_queue **queue_out, struct error *err)
{
    struct file_queue *queue = NULL;

    (void)pthread_mutex_lock(&queues->lock);
    if (queues->count > 0) queue = queues->idle[--queues->count];
    (void)pthread_mutex_unlock(&queues->lock);
    if (queue == NULL) TRY(file_queue_new(WRITES_MAX, &queue, err));
    *queue_out = queue;
    return SUCCESS;
}

static void give_queue(struct fs_queues *queues, struct file_queue *queue)
{
    (void)pthread_mutex_lock(&queues->lock);
    const bool is_kept = queues->count < FS_QUEUES_KEPT;
    if (is_kept) queues->idle[queues->count++] = queue;
    (void)pthread_mutex_unlock(&queues->lock);
    if (!is_kept) file_queue_free(queue);
}

void fs_queues_done(struct fs_queues *queues)
{
    for (size_t i = 0; i < queues->count; i++) file_queue_free(queues->idle[i]);
    (void)pthread_mutex_destroy(&queues->lock);
}

/* Waits until no write is pending. */
static struct result settle(struct fs_extent *extent, struct error *err)
{
    if (extent->queue == NULL) return SUCCESS;
    const struct result result = file_queue_wait(extent->queue, err);
    give_queue(&extent->fs->queues, extent->queue);
    extent->queue = NULL;
    return result;
}

/* ---- Files ---- */

static struct result create_file(struct fs_driver *fs, const struct uuid *blob, struct fs_extent *extent, struct error *err)
{
    for (uint32_t tries = 0; tries < PARTS_MAX; tries++, extent->part++) {
        fs_extent_path(blob, extent->part, extent->path);
        const struct result result =
            file_open_at(fs->root, extent->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, &extent->file, err);
        if (result.ok || err->kind != ERROR_CONFLICT) return result;
    }
    return failure(err, ERROR_LIMIT, "a blob has more than %d extents", PARTS_MAX);
}

struct result fs_extent_create(struct driver *driver, const struct uuid *blob, const struct driver_history *history,
                               struct driver_extent **extent_out, struct error *err)
{
    struct fs_extent *extent = memory_zeroed(1, sizeof *extent);

    if (extent == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an extent");
    extent->fs = fs_of(driver);
    extent->expected = history->expected;
    extent->part = history->count == 0 ? 0 : history->pieces[history->count - 1].part + 1;
    const struct result result = create_file(fs_of(driver), blob, extent, err);
    if (result.ok) *extent_out = (struct driver_extent *)extent;
    else free(extent);
    return result;
}

uint32_t fs_extent_part(const struct driver_extent *extent)
{
    return ((const struct fs_extent *)extent)->part;
}

/* ---- Direct I/O ---- */

/* Reserves no more than was announced, so that no space must be given back. Does not reserve all at once: the bytes may not
 * come. */
static uint64_t room_wanted(const struct fs_extent *extent, uint64_t end)
{
    uint64_t wanted = extent->room > ROOM_MIN ? extent->room : ROOM_MIN;

    if (wanted > ROOM_MAX) wanted = ROOM_MAX;
    if (extent->expected >= end && extent->expected - extent->room < wanted) wanted = extent->expected - extent->room;
    return wanted;
}

/* Writes then do not make the file longer; file systems wait for writes that do. If no space can be reserved, the writes wait. */
static void reserve(struct fs_extent *extent, uint64_t end)
{
    while (!extent->is_roomless && extent->room < end) {
        const uint64_t more = room_wanted(extent, end);
        if (fault_is_due(FAULT_FILE) || fallocate(extent->file, 0, (off_t)extent->room, (off_t)more) != 0)
            extent->is_roomless = true;
        else extent->room += more;
    }
}

/* Gives back the space that was reserved and not used. */
static struct result give_room_back(struct fs_extent *extent, struct error *err)
{
    if (!extent->is_roomless && (extent->room == 0 || extent->room == extent->written)) return SUCCESS;
    if (fault_is_due(FAULT_FILE) || ftruncate(extent->file, (off_t)extent->written) != 0)
        return failure(err, ERROR_UNAVAILABLE, "can't cut %s: %s", extent->path, strerror(errno));
    extent->room = 0;
    extent->is_roomless = false;
    return SUCCESS;
}

static bool is_aligned(const struct fs_extent *extent, const uint8_t *bytes)
{
    return (uintptr_t)bytes % FILE_QUEUE_ALIGNMENT == 0 && extent->written % FILE_QUEUE_ALIGNMENT == 0;
}

/* Whether this append begins direct I/O. The first direct write of all is waited for, because it shows whether direct I/O works
 * here. */
static bool begins_direct(struct fs_extent *extent, struct bytes bytes)
{
    struct error ignored; /* a broken disk fails the ordinary write, too */

    extent->is_refused = !fs_set_direct(extent->file, true, &extent->is_open_direct);
    if (extent->is_refused) return false;
    if (!atomic_load(&extent->fs->is_direct) &&
        file_write_at(extent->file, bytes.data, FILE_QUEUE_ALIGNMENT, extent->written, &ignored).ok)
        atomic_store(&extent->fs->is_direct, true);
    extent->has_direct = atomic_load(&extent->fs->is_direct) && take_queue(&extent->fs->queues, &extent->queue, &ignored).ok;
    extent->is_refused = !extent->has_direct;
    return extent->has_direct;
}

/* Whether the extent is known to be longer than the size for the page cache. */
static bool is_large(const struct fs_extent *extent, size_t more)
{
    return extent->expected > extent->fs->cached_max || extent->written + more > extent->fs->cached_max;
}

static bool goes_direct(struct fs_extent *extent, struct bytes bytes)
{
    struct error ignored;

    if (extent->is_refused || !is_aligned(extent, bytes.data) || bytes.length < FILE_QUEUE_ALIGNMENT) return false;
    if (!extent->has_direct) return bytes.length >= LONG_APPEND && is_large(extent, bytes.length) && begins_direct(extent, bytes);
    return fs_set_direct(extent->file, true, &extent->is_open_direct) &&
           (extent->queue != NULL || take_queue(&extent->fs->queues, &extent->queue, &ignored).ok);
}

/* ---- Appending ---- */

static struct result push_out(struct fs_extent *extent, struct error *err)
{
    const uint64_t count = extent->written - extent->pushed_out;

    if (count < PUSH_OUT_EVERY) return SUCCESS;
    if (fault_is_due(FAULT_FILE) ||
        sync_file_range(extent->file, (off_t)extent->pushed_out, (off_t)count, SYNC_FILE_RANGE_WRITE) != 0)
        return failure(err, ERROR_UNAVAILABLE, "can't write back %s: %s", extent->path, strerror(errno));
    extent->pushed_out = extent->written;
    return SUCCESS;
}

static struct result append_usual(struct fs_extent *extent, struct bytes bytes, struct error *err)
{
    if (bytes.length == 0) return SUCCESS;
    if (!fs_set_direct(extent->file, false, &extent->is_open_direct))
        return failure(err, ERROR_UNAVAILABLE, "can't write %s: %s", extent->path, strerror(errno));
    TRY(file_write_at(extent->file, bytes.data, bytes.length, extent->written, err));
    extent->written += bytes.length;
    return push_out(extent, err);
}

/* Appends all whole pages; *bytes is then the rest. */
static struct result append_direct(struct fs_extent *extent, struct bytes *bytes, struct error *err)
{
    const size_t length = bytes->length - bytes->length % FILE_QUEUE_ALIGNMENT;

    reserve(extent, extent->written + length);
    TRY(file_queue_write(extent->queue, extent->file, (struct bytes){bytes->data, length}, extent->written, err));
    extent->written += length;
    extent->pushed_out = extent->written;
    bytes->data += length;
    bytes->length -= length;
    return SUCCESS;
}

struct result fs_extent_append(struct driver_extent *handle, struct bytes bytes, struct error *err)
{
    struct fs_extent *extent = extent_of(handle);

    if (goes_direct(extent, bytes)) TRY(append_direct(extent, &bytes, err));
    return append_usual(extent, bytes, err);
}

/* The folder's fsync and the file's wait for the same commit of the file system, so both are requested at once. */
static struct result sync_with_name(struct fs_extent *extent, struct error *err)
{
    OWNED_FD folder = -1;
    struct error ignored; /* without a queue the two calls run one after the other */

    TRY(fs_open_folder(extent->fs->root, extent->path, &folder, err));
    const bool is_begun =
        take_queue(&extent->fs->queues, &extent->queue, &ignored).ok && file_queue_sync(extent->queue, folder, &ignored).ok;
    const struct result synced = file_sync(extent->file, err);
    const struct result named = settle(extent, synced.ok ? err : &ignored);
    TRY(synced);
    TRY(named);
    if (!is_begun) TRY(file_sync(folder, err));
    extent->is_named = true;
    return SUCCESS;
}

struct result fs_extent_sync(struct driver_extent *handle, struct error *err)
{
    struct fs_extent *extent = extent_of(handle);

    TRY(settle(extent, err));
    return extent->is_named ? file_sync_data(extent->file, err) : sync_with_name(extent, err);
}

struct result fs_extent_finish(struct driver_extent *handle, struct error *err)
{
    struct fs_extent *extent = extent_of(handle);

    TRY(settle(extent, err));
    TRY(give_room_back(extent, err));
    return extent->is_named ? file_sync(extent->file, err) : sync_with_name(extent, err);
}

void fs_extent_close(struct driver_extent *extent)
{
    struct error ignored; /* the file was synced before, or its bytes are not needed */

    if (extent == NULL) return;
    (void)settle(extent_of(extent), &ignored).ok;
    (void)give_room_back(extent_of(extent), &ignored).ok;
    (void)close(extent_of(extent)->file);
    free(extent_of(extent));
}

void fs_extent_discard(struct driver_extent *extent)
{
    if (extent != NULL) (void)unlinkat(extent_of(extent)->fs->root, extent_of(extent)->path, 0);
    fs_extent_close(extent);
}
