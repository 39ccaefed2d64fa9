/*
 * Pulls come from the page cache, where uploads leave their bytes while memory is cheap. While it is dear, what is not there is read
 * past it when it is pulled for the first time, four pieces at a time; whoever pulls it again fills the page cache for all who come
 * then. docs/decisions/0023-past-the-page-cache.md.
 *
 * What of a part is under way or ready is its stream: pieces from `begin` to `end`, of which the first is read from. Any range
 * that it doesn't hold is read as usual, so nothing depends on the order of reads but how fast they are.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/file_queue.h"
#include "base/memory.h"
#include "storage/driver_fs_priv.h"

enum {
    PIECE = 256 << 10, /* what a blob is read in */
    PIECES = 4,        /* with four under way the disk measured on is never idle */
    PROBE_EVERY = 32,  /* windows, of which one comes through the page cache though it is dear, to see whether it still is */
    COST_WEIGHT = 4,   /* what a new one counts for: a quarter */
    DEAR_NS = 150000,  /* for FS_WEIGHED bytes; where memory is cheap 50,000 from the page cache, 100,000 through it (measured) */
};
#define STRETCH (UINT64_C(64) << 20) /* of a part: what is pulled for the first or second time; clients pull ranges side by side */

_Static_assert(PIECES <= FILE_QUEUE_DEPTH_MAX && PIECE % FILE_QUEUE_ALIGNMENT == 0, "a piece is a read");

struct fs_stream {
    struct file_queue *queue;
    void *memory;
    uint8_t *pieces; /* in `memory`, aligned; that of an offset lies where its number, modulo PIECES, says */
    uint64_t begin, end, until;
    bool is_ready; /* the first piece */
};

struct fs_part {
    struct fs_driver *fs;
    int file;
    uint64_t size, name; /* name: of the part, among those pulled */
    bool is_open_direct; /* the file has O_DIRECT now */
    bool is_past;        /* what was asked for last goes past the page cache */
    bool is_refused;     /* that does not work here */
    bool is_first_pull;  /* of `stretch` */
    uint64_t stretch;
    struct fs_stream *stream;
    bool is_pulled;    /* by somebody who serves it: what that costs is weighed */
    uint64_t mean_ns;  /* what FS_WEIGHED bytes of it cost through the page cache, of late */
    uint64_t ahead_ns; /* what it cost to ask for them */
};

static struct fs_part *part_of(struct driver_part *part)
{
    return (struct fs_part *)part;
}

/* ---- Memory that is used again ---- */

static void free_stream(struct fs_stream *stream)
{
    file_queue_free(stream->queue);
    free(stream->memory);
    free(stream);
}

static struct fs_stream *new_stream(void)
{
    struct fs_stream *stream = memory_zeroed(1, sizeof *stream);
    struct error ignored; /* then it is read as usual */

    if (stream == NULL) return NULL;
    stream->memory = memory_resize(NULL, PIECES * PIECE + FILE_QUEUE_ALIGNMENT);
    if (stream->memory == NULL || !file_queue_new(PIECES, &stream->queue, &ignored).ok) {
        free_stream(stream);
        return NULL;
    }
    stream->pieces = (uint8_t *)stream->memory + (FILE_QUEUE_ALIGNMENT - (uintptr_t)stream->memory % FILE_QUEUE_ALIGNMENT);
    return stream;
}

/* NULL when all are used. */
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

/* What is under way in it may go on: whoever takes it next waits. So nobody waits for a disk whose client has gone away. */
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

/* ---- Past the page cache ---- */

/* Whether nobody pulled the part's stretch as long as is remembered; from now on somebody has. */
static bool is_first_pull(struct fs_part *part, uint64_t stretch)
{
    uint64_t name = (part->name ^ stretch) * UINT64_C(0x9e3779b97f4a7c15);

    name = (name ^ name >> 32) | 1; /* no name is 0 */
    return atomic_exchange(&part->fs->pulled[name >> 1 & (FS_PULLED_KEPT - 1)], name) != name;
}

/* However it is read: the first pull finds it in the page cache, or goes past it, the second one fills it. */
static void enter_stretch(struct fs_part *part, uint64_t stretch)
{
    if (part->stretch == stretch) return;
    part->is_first_pull = is_first_pull(part, stretch);
    part->stretch = stretch;
}

static bool goes_past(struct fs_part *part, uint64_t offset)
{
    enter_stretch(part, offset / STRETCH);
    return part->is_first_pull && part->mean_ns >= DEAR_NS && !part->is_refused && offset % FILE_QUEUE_ALIGNMENT == 0 &&
           part->size - offset >= PIECE;
}

/* As much as there is room for. What does not begin is not held, and so is read as usual. */
static void top_up(struct fs_part *part)
{
    struct fs_stream *stream = part->stream;
    struct error ignored;

    while (stream->end < stream->until && stream->end - stream->begin < (uint64_t)PIECES * PIECE) {
        uint8_t *piece = stream->pieces + stream->end / PIECE % PIECES * PIECE;
        part->is_refused = !fs_set_direct(part->file, true, &part->is_open_direct) ||
                           !file_queue_read(stream->queue, part->file, piece, PIECE, stream->end, &ignored).ok;
        if (part->is_refused)
            stream->until = stream->end;
        else
            stream->end += PIECE;
    }
}

/* Whether the part has a stream now that goes on with these bytes. */
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

/* Waits for the first piece. A read that failed, or ended early, is tried as usual: that says why, or goes on. */
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

/* Whether the stream's first piece has the byte at `offset`, which those before it haven't; nobody needs these any more. */
static bool holds(struct fs_part *part, uint64_t offset)
{
    while (part->stream != NULL && offset >= part->stream->begin) {
        if (part->stream->begin == part->stream->end) {
            drop_stream(part); /* all was read */
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

/* How many of these bytes came past the page cache. */
static size_t read_past(struct fs_part *part, uint64_t offset, uint8_t *into, size_t length)
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

struct result fs_part_open(struct driver *driver, const struct uuid *blob, uint32_t number, struct driver_part **part_out,
                           struct error *err)
{
    OWNED_FD file = -1;
    struct fs_part *opened = NULL;
    char path[FS_PATH_SIZE];
    uint64_t size = 0, name = 0;

    fs_extent_path(blob, number, path);
    TRY(file_open_at(fs_of(driver)->root, path, O_RDONLY | O_NOFOLLOW, 0, &file, err));
    TRY(file_size(file, &size, err));
    opened = memory_zeroed(1, sizeof *opened);
    if (opened == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a file");
    memcpy(&name, blob->bytes, sizeof name); /* random, so that no two blobs share it */
    *opened = (struct fs_part){
        .fs = fs_of(driver), .file = file, .size = size, .name = name + ((uint64_t)number << 40), .stretch = UINT64_MAX,
        .mean_ns = atomic_load(&fs_of(driver)->read_ns)};
    file = -1;
    *part_out = (struct driver_part *)opened;
    return SUCCESS;
}

uint64_t fs_part_size(const struct driver_part *part)
{
    return ((const struct fs_part *)part)->size;
}

/* What a read through the page cache has cost; ahead_ns: asking for FS_WEIGHED bytes of it before. */
static void weigh(struct fs_part *part, size_t length, uint64_t spent_ns, uint64_t ahead_ns)
{
    if (part->is_pulled && length >= FS_WEIGHED)
        part->mean_ns = fs_mean_ns(part->mean_ns, spent_ns * FS_WEIGHED / length + ahead_ns, COST_WEIGHT);
}

static struct result read_usual(struct fs_part *part, uint64_t offset, uint8_t *into, size_t length, struct error *err)
{
    const uint64_t began = clock_thread_ns();

    if (!fs_set_direct(part->file, false, &part->is_open_direct))
        return failure(err, ERROR_UNAVAILABLE, "can't read a file: %s", strerror(errno));
    TRY(file_read_at(part->file, into, length, offset, err));
    weigh(part, length, clock_thread_ns() - began, part->ahead_ns);
    return SUCCESS;
}

struct result fs_part_read(struct driver_part *part, uint64_t offset, uint8_t *into, size_t length, struct error *err)
{
    const size_t done = read_past(part_of(part), offset, into, length);

    return done == length ? SUCCESS : read_usual(part_of(part), offset + done, into + done, length - done, err);
}

bool fs_part_read_at_once(struct driver_part *handle, uint64_t offset, uint8_t *into, size_t length)
{
    struct fs_part *part = part_of(handle);

    if (part->is_past || part->stream != NULL || (part->is_pulled && goes_past(part, offset)) ||
        !fs_set_direct(part->file, false, &part->is_open_direct))
        return false;
    const uint64_t began = clock_thread_ns();
    if (!file_read_at_once(part->file, into, length, offset)) return false;
    weigh(part, length, clock_thread_ns() - began, 0);
    return true;
}

void fs_part_ahead(struct driver_part *part, uint64_t offset, uint64_t length)
{
    (void)posix_fadvise(part_of(part)->file, (off_t)offset, (off_t)length, POSIX_FADV_WILLNEED);
}

/* Whether the way past the page cache is taken, and not left to see what the other one costs now. */
static bool pull_past(struct fs_part *part, uint64_t offset, uint64_t length)
{
    part->is_past = goes_past(part, offset);
    if (!part->is_past || atomic_fetch_add(&part->fs->windows, 1) % PROBE_EVERY == PROBE_EVERY - 1) return false;
    part->is_past = part->is_first_pull = extend(part, offset, length); /* when all memory for that is used, the stretch is read as usual */
    return part->is_past;
}

void fs_part_pull(struct driver_part *handle, uint64_t offset, uint64_t length)
{
    struct fs_part *part = part_of(handle);

    part->is_pulled = true;
    if (offset >= part->size || length == 0) return;
    if (length > part->size - offset) length = part->size - offset;
    if (pull_past(part, offset, length)) return;
    if (part->stream != NULL && offset < part->stream->begin) drop_stream(part); /* its reader went back */
    const uint64_t began = clock_thread_ns();
    fs_part_ahead(handle, offset, length);
    part->ahead_ns = (clock_thread_ns() - began) * FS_WEIGHED / length;
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
