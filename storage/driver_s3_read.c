#include <string.h>

#include "base/memory.h"
#include "storage/driver_s3_priv.h"

enum {
    HEAD_BYTES = 64 << 10,    /* read when an object is opened: a small one is read whole */
    WINDOW_FIRST = 256 << 10, /* the length of blob_reader.c's reads */
    WINDOW_MAX = 2 << 20,     /* the most that is read ahead for a sequential reader */
};

struct s3_part {
    struct s3_driver *s3;
    struct extent_name name;
    uint64_t size;
    struct buffer head;   /* from the start of the object */
    struct buffer window; /* from window_at on */
    uint64_t window_at;
    size_t next_window;
};

static struct s3_part *part_of(struct driver_part *part)
{
    return (struct s3_part *)part;
}

/* Adds the sizes of later segments: all but the last one are full. */
static struct result measure(struct s3_part *part, struct error *err)
{
    char key[S3_NAME_SIZE];

    for (uint32_t segment = 1; part->size == segment * part->s3->segment_bytes; segment++) {
        struct buffer OWNED_BUFFER first = BUFFER(1);
        uint64_t whole = 0;
        s3_extent_key(part->s3, &part->name, segment, key);
        const struct result result = s3_get_range(part->s3, key, 0, &first, &whole, err);
        if (!result.ok && err->kind == ERROR_NOT_FOUND) return SUCCESS;
        TRY(result);
        part->size += whole;
    }
    return SUCCESS;
}

static struct result open_object(struct s3_part *part, struct error *err)
{
    char key[S3_NAME_SIZE];

    TRY(s3_reach(part->s3, err));
    s3_extent_key(part->s3, &part->name, 0, key);
    TRY(s3_get_range(part->s3, key, 0, &part->head, &part->size, err));
    return measure(part, err);
}

struct result s3_part_open(struct driver *driver, const struct uuid *blob, uint32_t number, struct driver_part **part_out,
                           struct error *err)
{
    struct s3_part *part = memory_zeroed(1, sizeof *part);

    if (part == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an object");
    *part = (struct s3_part){.s3 = s3_of(driver),
                             .name = {*blob, number},
                             .head = BUFFER(HEAD_BYTES),
                             .window = BUFFER(WINDOW_MAX),
                             .next_window = WINDOW_FIRST};
    const struct result result = open_object(part, err);
    if (result.ok) *part_out = (struct driver_part *)part;
    else s3_part_close((struct driver_part *)part);
    return result;
}

uint64_t s3_part_size(const struct driver_part *part)
{
    return ((const struct s3_part *)part)->size;
}

static size_t smaller(uint64_t a, size_t b)
{
    return a < b ? (size_t)a : b;
}

/* Copies the part of these `length` bytes at `offset` that is in memory. */
static size_t copy_known(const struct buffer *known, uint64_t known_at, uint64_t offset, uint8_t *into, size_t length)
{
    if (offset < known_at || offset - known_at >= known->length) return 0;
    const size_t within = (size_t)(offset - known_at);
    const size_t count = smaller(known->length - within, length);
    memcpy(into, known->data + within, count);
    return count;
}

/* A reader that continues at the end of the window gets a larger window. Near the end of the object the window begins
 * earlier, because a footer is read before its trailer. */
static uint64_t aim_window(struct s3_part *part, uint64_t offset)
{
    const bool goes_on = part->window.length > 0 && offset == part->window_at + part->window.length;

    if (goes_on) part->next_window = smaller(2 * (uint64_t)part->next_window, WINDOW_MAX);
    else part->next_window = WINDOW_FIRST;
    if (goes_on || part->size - offset >= HEAD_BYTES) return offset;
    return part->size > HEAD_BYTES ? part->size - HEAD_BYTES : 0;
}

static struct result move_window(struct s3_part *part, uint64_t offset, struct error *err)
{
    const uint64_t segment_bytes = part->s3->segment_bytes;
    uint64_t at = aim_window(part, offset), whole = 0;
    char key[S3_NAME_SIZE];

    if (at / segment_bytes != offset / segment_bytes) at = offset; /* one request reads one object */
    const uint64_t left = segment_bytes - at % segment_bytes;
    part->window.maximum = smaller(left < part->size - at ? left : part->size - at, part->next_window);
    part->window_at = at;
    s3_extent_key(part->s3, &part->name, (uint32_t)(at / segment_bytes), key);
    const struct result result = s3_get_range(part->s3, key, at % segment_bytes, &part->window, &whole, err);
    if (!result.ok) buffer_clear(&part->window);
    if (!result.ok && err->kind == ERROR_NOT_FOUND) return failure(err, ERROR_CORRUPT, "an object has gone while it was read");
    return result;
}

struct result s3_part_read(struct driver_part *handle, uint64_t offset, uint8_t *into, size_t length, struct error *err)
{
    struct s3_part *part = part_of(handle);

    if (offset > part->size || length > part->size - offset)
        return failure(err, ERROR_CORRUPT, "an object of %llu bytes ends too early", (unsigned long long)part->size);
    while (length > 0) {
        size_t count = copy_known(&part->head, 0, offset, into, length);
        if (count == 0) count = copy_known(&part->window, part->window_at, offset, into, length);
        if (count == 0) TRY(move_window(part, offset, err));
        offset += count;
        into += count;
        length -= count;
    }
    return SUCCESS;
}

void s3_part_hint(struct driver_part *part, uint64_t offset, uint64_t length)
{
    (void)part, (void)offset, (void)length; /* each read moves the window itself, and there is no cache to drop */
}

void s3_part_close(struct driver_part *handle)
{
    struct s3_part *part = part_of(handle);

    if (part == NULL) return;
    buffer_done(&part->head);
    buffer_done(&part->window);
    free(part);
}
