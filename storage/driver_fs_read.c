/*
 * Short parts are read through the page cache, where pushes leave them. Long parts are read with direct I/O, as they were
 * written, four pieces at a time; docs/decisions/0043-a-size-for-the-page-cache.md.
 *
 * The pieces of a part that are being read or ready are its stream: from `begin` to `end`; bytes are taken from the first.
 * Bytes outside the stream are read in the ordinary way, so the order of reads affects only their speed.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/file_queue.h"
#include "base/memory.h"
#include "storage/driver_fs_priv.h"

enum {
    PIECE = 256 << 10, /* a blob is read in such pieces */
    PIECES = 4,        /* with four at a time the measured disk was never idle */
};

_Static_assert(PIECES <= FILE_QUEUE_DEPTH_MAX && PIECE % FILE_QUEUE_ALIGNMENT == 0, "a piece is a read");

struct fs_stream {
    struct file_queue *queue;
    void *memory;
    uint8_t *pieces; /* in `memory`, aligned; the piece of an offset is at its number modulo PIECES */
    uint64_t begin, end, until;
    bool is_ready; /* the first piece is ready */
};

struct fs_part {
    struct fs_driver *fs;
    int file;
    uint64_t size;
    bool is_open_direct; /* the file has O_DIRECT now */
    bool is_direct;      /* the bytes that were asked for last are read with direct I/O */
    bool is_refused;     /* direct I/O does not work here, or all memory for it is in use: the part is read in the ordinary way */
    struct fs_stream *stream;
};

static struct fs_part *part_of(struct driver_part *part)
{
    return (struct fs_part *)part;
}

/* ---- Memory for streams ---- */

static void free_stream(struct fs_stream *stream)
{
    file_queue_free(stream->queue);
    free(stream->memory);
    free(stream);
}

static struct fs_stream *new_stream(void)
{
    struct fs_stream *stream = memory_zeroed(1, sizeof *stream);
    struct error ignored; /* without memory the part is read in the ordinary way */

    if (stream == NULL) return NULL;
    stream->memory = memory_resize(NULL, PIECES * PIECE + FILE_QUEUE_ALIGNMENT);
    if (stream->memory == NULL || !file_queue_new(PIECES, &stream->queue, &ignored).ok) {
        free_stream(stream);
        return NULL;
    }
    stream->pieces = (uint8_t *)stream->memory + (FILE_QUEUE_ALIGNMENT - (uintptr_t)stream->memory % FILE_QUEUE_ALIGNMENT);
    return stream;
}

/* NULL when all are in use. */
static struct fs_stream *take_stream(struct fs_streams *streams)
{
    struct fs_stream *stream = NULL;
    struct error ignored; /* of reads that nobody waited for */

    (void)pthread_mutex_lock(&streams->lock);
    const bool is_free = streams->used < FS_STREAMS_MAX;
    if (is_free) streams->used++;
    if (is_free && streams->count > 0) stream = streams->idle[--streams->count];
    (void)pthread_mutex_unlock(&streams->lock);
    if (stream != NULL) (void)file_queue_wait(stream->queue, &ignored).ok;
    if (!is_free || stream != NULL) return stream;
    stream = new_stream();
    if (stream != NULL) return stream;
    (void)pthread_mutex_lock(&streams->lock);
    streams->used--;
    (void)pthread_mutex_unlock(&streams->lock);
    return NULL;
}

/* Pending reads may continue; the next user of the memory waits for them. So no thread waits for the disk when a client has
 * left. */
static void drop_stream(struct fs_part *part)
{
    struct fs_streams *streams = &part->fs->streams;

    if (part->stream == NULL) return;
    (void)pthread_mutex_lock(&streams->lock);
    streams->used--;
    streams->idle[streams->count++] = GIVE(part->stream);
    (void)pthread_mutex_unlock(&streams->lock);
}

void fs_streams_done(struct fs_streams *streams)
{
    for (size_t i = 0; i < streams->count; i++) free_stream(streams->idle[i]);
    (void)pthread_mutex_destroy(&streams->lock);
}

/* ---- Direct I/O ---- */

/* A rest shorter than a piece does not justify a wait for the disk. */
static bool reads_direct(const struct fs_part *part, uint64_t offset)
{
    return part->size > part->fs->cached_max && !part->is_refused && offset % FILE_QUEUE_ALIGNMENT == 0 &&
           part->size - offset >= PIECE;
}

/* Begins as many reads as there are free pieces. If a read can't begin, its bytes are read in the ordinary way. */
static void top_up(struct fs_part *part)
{
    struct fs_stream *stream = part->stream;
    struct error ignored;

    while (stream->end < stream->until && stream->end - stream->begin < (uint64_t)PIECES * PIECE) {
        uint8_t *piece = stream->pieces + stream->end / PIECE % PIECES * PIECE;
        part->is_refused = !fs_set_direct(part->file, true, &part->is_open_direct) ||
                           !file_queue_read(stream->queue, part->file, piece, PIECE, stream->end, &ignored).ok;
        if (part->is_refused) stream->until = stream->end;
        else stream->end += PIECE;
    }
}

/* Whether the part has a stream now that continues with these bytes. */
static bool extend(struct fs_part *part, uint64_t offset, uint64_t length)
{
    struct fs_stream *stream = part->stream;

    if (stream != NULL && (offset < stream->begin || offset > stream->until)) drop_stream(part);
    if (part->stream == NULL) {
        part->stream = stream = take_stream(&part->fs->streams);
        if (stream == NULL) return false;
        stream->begin = stream->end = stream->until = offset;
        stream->is_ready = false;
    }
    if (stream->until < offset + length) stream->until = offset + length;
    top_up(part);
    return stream->until > offset;
}

/* Waits for the first piece. If its read failed or ended early, the bytes are read in the ordinary way, which succeeds
 * or returns the error. */
static bool get_ready(struct fs_part *part)
{
    struct fs_stream *stream = part->stream;
    const uint64_t left = part->size - stream->begin;
    struct error ignored;
    size_t length = 0;

    if (!stream->is_ready)
        stream->is_ready = file_queue_read_end(stream->queue, &length, &ignored).ok && length >= (left < PIECE ? left : PIECE);
    if (stream->is_ready) return true;
    part->is_refused = true;
    drop_stream(part);
    return false;
}

/* Whether the stream's first piece has the byte at `offset`. Pieces before it are dropped. */
static bool holds(struct fs_part *part, uint64_t offset)
{
    while (part->stream != NULL && offset >= part->stream->begin) {
        if (part->stream->begin == part->stream->end) {
            drop_stream(part); /* all of it was read */
        } else if (!get_ready(part) || offset - part->stream->begin < PIECE) {
            return part->stream != NULL;
        } else {
            part->stream->begin += PIECE;
            part->stream->is_ready = false;
            top_up(part);
        }
    }
    return false;
}

/* Copies bytes from the stream, and returns how many. */
static size_t read_direct(struct fs_part *part, uint64_t offset, uint8_t *into, size_t length)
{
    size_t done = 0, count = 0;

    for (; done < length && offset + done < part->size && holds(part, offset + done); done += count) {
        const uint64_t within = offset + done - part->stream->begin;
        const uint64_t held = (part->size - part->stream->begin < PIECE ? part->size - part->stream->begin : PIECE) - within;
        count = length - done < held ? length - done : (size_t)held;
        memcpy(into + done, part->stream->pieces + part->stream->begin / PIECE % PIECES * PIECE + within, count);
    }
    if (done > 0) (void)holds(part, offset + done);
    return done;
}

/* ---- Reading ---- */

/* Takes the file over on success, and sets it to -1. */
static struct result make_part(struct driver *driver, int *file, struct driver_part **part_out, struct error *err)
{
    uint64_t size = 0;

    TRY(file_size(*file, &size, err));
    struct fs_part *opened = memory_zeroed(1, sizeof *opened);
    if (opened == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a file");
    *opened = (struct fs_part){.fs = fs_of(driver), .file = *file, .size = size};
    *file = -1;
    *part_out = (struct driver_part *)opened;
    return SUCCESS;
}

struct result fs_part_open(struct driver *driver, const struct uuid *blob, uint32_t number, struct driver_part **part_out,
                           struct error *err)
{
    OWNED_FD file = -1;
    char path[FS_PATH_SIZE];

    fs_extent_path(blob, number, path);
    TRY(file_open_at(fs_of(driver)->root, path, O_RDONLY | O_NOFOLLOW, 0, &file, err));
    return make_part(driver, &file, part_out, err);
}

bool fs_part_open_cached(struct driver *driver, const struct uuid *blob, uint32_t number, struct driver_part **part_out)
{
    OWNED_FD file = -1;
    char path[FS_PATH_SIZE];
    struct error ignored = {0};

    fs_extent_path(blob, number, path);
    return file_open_cached(fs_of(driver)->root, path, &file) && make_part(driver, &file, part_out, &ignored).ok;
}

uint64_t fs_part_size(const struct driver_part *part)
{
    return ((const struct fs_part *)part)->size;
}

static struct result read_usual(struct fs_part *part, uint64_t offset, uint8_t *into, size_t length, struct error *err)
{
    if (!fs_set_direct(part->file, false, &part->is_open_direct))
        return failure(err, ERROR_UNAVAILABLE, "can't read a file: %s", strerror(errno));
    return file_read_at(part->file, into, length, offset, err);
}

struct result fs_part_read(struct driver_part *part, uint64_t offset, uint8_t *into, size_t length, struct error *err)
{
    const size_t done = read_direct(part_of(part), offset, into, length);

    return done == length ? SUCCESS : read_usual(part_of(part), offset + done, into + done, length - done, err);
}

bool fs_part_read_cached(struct driver_part *handle, uint64_t offset, uint8_t *into, size_t length)
{
    struct fs_part *part = part_of(handle);

    if (part->is_direct || part->stream != NULL || reads_direct(part, offset) ||
        !fs_set_direct(part->file, false, &part->is_open_direct))
        return false;
    return file_read_cached(part->file, into, length, offset);
}

void fs_part_ahead(struct driver_part *part, uint64_t offset, uint64_t length)
{
    (void)posix_fadvise(part_of(part)->file, (off_t)offset, (off_t)length, POSIX_FADV_WILLNEED);
}

static bool pull_past(struct fs_part *part, uint64_t offset, uint64_t length)
{
    const bool is_wanted = reads_direct(part, offset);

    part->is_direct = is_wanted && extend(part, offset, length);
    part->is_refused = part->is_refused || (is_wanted && !part->is_direct);
    return part->is_direct;
}

void fs_part_pull(struct driver_part *handle, uint64_t offset, uint64_t length)
{
    struct fs_part *part = part_of(handle);

    if (offset >= part->size || length == 0) return;
    if (length > part->size - offset) length = part->size - offset;
    if (pull_past(part, offset, length)) return;
    if (part->stream != NULL && offset < part->stream->begin) drop_stream(part); /* the reader went back */
    fs_part_ahead(handle, offset, length);
}

void fs_part_forget(struct driver_part *part, uint64_t offset, uint64_t length)
{
    (void)posix_fadvise(part_of(part)->file, (off_t)offset, (off_t)length, POSIX_FADV_DONTNEED);
}

void fs_part_close(struct driver_part *handle)
{
    struct fs_part *part = part_of(handle);

    if (part == NULL) return;
    drop_stream(part);
    (void)close(part->file);
    free(part);
}
