#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "storage/driver_s3_priv.h"

enum { SPILLS_MAX = 64 }; /* objects with bytes that fill no part; 64 of them are replaced by one */

struct s3_extent {
    struct s3_driver *s3;
    struct extent_name name;
    uint32_t segment;
    char *upload_id;         /* owned; NULL before the first part of this segment */
    uint32_t parts;          /* of this segment */
    struct buffer pending;   /* bytes that are in no part yet */
    uint64_t pending_offset; /* of its first byte, in the extent */
    uint64_t safe_until;     /* bytes before it are in the list */
    struct part_piece spills[SPILLS_MAX];
    size_t spill_count;
    bool is_listed; /* the list has entries of this segment */
};

static struct s3_extent *extent_of(struct driver_extent *extent)
{
    return (struct s3_extent *)extent;
}

uint32_t s3_extent_part(const struct driver_extent *extent)
{
    return ((const struct s3_extent *)extent)->name.extent;
}

/* ---- Beginning ---- */

static struct result number_extent(struct s3_extent *extent, const struct driver_history *history, struct error *err)
{
    TRY(part_list_next_extent(extent->s3->parts, &extent->name.extent, err));
    if (history->count > 0 && extent->name.extent <= history->pieces[history->count - 1].part)
        return failure(err, ERROR_LIMIT, "numbers of extents began again at 0 during this upload: begin a new one");
    return SUCCESS;
}

static struct result start(struct s3_extent *extent, const struct driver_history *history, struct error *err)
{
    TRY(s3_reach(extent->s3, err));
    TRY(number_extent(extent, history, err));
    if (history->count == 0) return SUCCESS;
    const struct extent_name last = {extent->name.blob, history->pieces[history->count - 1].part};
    return s3_adopt(extent->s3, &last, err);
}

struct result s3_extent_create(struct driver *driver, const struct uuid *blob, const struct driver_history *history,
                               struct driver_extent **extent_out, struct error *err)
{
    struct s3_extent *extent = memory_zeroed(1, sizeof *extent);

    if (extent == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an extent");
    extent->s3 = s3_of(driver);
    extent->name.blob = *blob;
    extent->pending = BUFFER((size_t)extent->s3->part_bytes * S3_PART_GROWTH);
    const struct result result = start(extent, history, err);
    if (result.ok) *extent_out = (struct driver_extent *)extent;
    else free(extent);
    return result;
}

/* ---- Parts ---- */

/* Small at first, so many uploads of small blobs need little memory; larger later, so there are fewer requests. */
static size_t part_size(const struct s3_extent *extent)
{
    const size_t times = extent->parts < 100 ? 1 : extent->parts < 1000 ? 2 : S3_PART_GROWTH;

    return extent->s3->part_bytes * times;
}

static uint64_t segment_end(const struct s3_extent *extent)
{
    return (extent->segment + UINT64_C(1)) * extent->s3->segment_bytes;
}

static struct result take_upload_id(struct s3_extent *extent, struct bytes answer, struct error *err)
{
    struct buffer OWNED_BUFFER id = BUFFER(1024); /* as long as the column allows */

    TRY(s3_answer_upload_id(answer, &id, err));
    const struct part_upload upload = {.name = extent->name, .segment = extent->segment, .upload_id = buffer_text(&id)};
    TRY(part_list_begin(extent->s3->parts, &upload, err));
    extent->is_listed = true;
    extent->upload_id = memory_copy_text(buffer_text(&id), id.length);
    if (extent->upload_id == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an upload id");
    return SUCCESS;
}

/* An upload that was begun but not recorded holds no bytes; the bucket's own rule ends it (docs/s3.md). */
static struct result begin_upload(struct s3_extent *extent, const char *key, struct error *err)
{
    const struct s3_request request = {
        .method = "POST", .key = key, .query = {{"uploads", ""}}, .query_count = 1, .may_lie = true};
    OWNED_ANSWER answer = S3_ANSWER(S3_ANSWER_MAX);

    if (extent->upload_id != NULL) return SUCCESS;
    TRY(s3_call(extent->s3->s3, &request, &answer, err));
    return take_upload_id(extent, buffer_bytes(&answer.body), err);
}

/* The bytes of these objects are in a part now. */
static void remove_spills(struct s3_extent *extent, size_t count)
{
    struct error ignored;
    char key[S3_NAME_SIZE];

    bool ok = true; /* the rest is removed with the blob */
    for (size_t i = 0; i < count && ok; i++) {
        s3_spill_key(extent->s3, &extent->name, &extent->spills[i], key);
        ok = s3_delete(extent->s3, key, &ignored).ok;
    }
    memmove(extent->spills, extent->spills + count, (extent->spill_count - count) * sizeof extent->spills[0]);
    extent->spill_count -= count;
}

static void move_on(struct s3_extent *extent)
{
    extent->pending_offset += extent->pending.length;
    extent->safe_until = extent->pending_offset;
    buffer_clear(&extent->pending);
}

static struct result put_part(struct s3_extent *extent, const struct s3_part_name *part, char etag_out[S3_ETAG_SIZE],
                              struct error *err)
{
    const struct result result = s3_put_part(extent->s3, part, buffer_bytes(&extent->pending), etag_out, err);

    if (result.ok || err->kind != ERROR_NOT_FOUND) return result;
    return failure(err, ERROR_CONFLICT, "the upload to the bucket has ended: another writer took over, or the store gave it up");
}

static struct result send_part(struct s3_extent *extent, const char *key, struct error *err)
{
    struct part_piece piece = {.segment = extent->segment,
                               .offset = extent->pending_offset,
                               .size_bytes = extent->pending.length,
                               .number = extent->parts + 1};

    TRY(begin_upload(extent, key, err));
    const struct s3_part_name part = {key, extent->upload_id, piece.number};
    TRY(put_part(extent, &part, piece.etag, err));
    TRY(part_list_add(extent->s3->parts, &extent->name, &piece, err));
    extent->parts++;
    move_on(extent);
    remove_spills(extent, extent->spill_count);
    return SUCCESS;
}

/* ---- Completing an object ---- */

/*
 * A writer that took the upload over may have completed the extent without this upload's parts, and removed them from the
 * list. An object made of the remaining parts would not be the extent, and would replace it.
 */
static bool are_all(const struct s3_extent *extent, const struct part_piece *pieces, size_t count)
{
    uint64_t end = extent->segment * extent->s3->segment_bytes;
    uint32_t parts = 0;

    for (size_t i = 0; i < count; i++) {
        if (pieces[i].number == 0) continue;
        if (pieces[i].offset != end) return false;
        end += pieces[i].size_bytes;
        parts++;
    }
    return parts == extent->parts && end == extent->pending_offset;
}

static struct result complete(struct s3_extent *extent, const char *key, struct error *err)
{
    struct part_piece *pieces = NULL;
    const struct s3_part_name upload = {.key = key, .upload_id = extent->upload_id};
    size_t count = 0;

    if (extent->pending.length > 0) TRY(send_part(extent, key, err));
    TRY(part_list_pieces(extent->s3->parts, &extent->name, &pieces, &count, err));
    const size_t first = s3_first_of(pieces, count, extent->segment);
    const struct result result =
        are_all(extent, pieces + first, count - first)
            ? s3_complete(extent->s3, &upload, pieces + first, count - first, err)
            : failure(err, ERROR_CONFLICT, "another writer has made extent %u whole already", extent->name.extent);
    free(pieces);
    return result;
}

static struct result put_whole(struct s3_extent *extent, const char *key, struct error *err)
{
    TRY(s3_put(extent->s3, key, buffer_bytes(&extent->pending), err));
    move_on(extent);
    return SUCCESS;
}

/* Completes the segment's object, and removes the segment from the list. */
static struct result end_segment(struct s3_extent *extent, struct error *err)
{
    char key[S3_NAME_SIZE];

    s3_extent_key(extent->s3, &extent->name, extent->segment, key);
    TRY(extent->upload_id == NULL ? put_whole(extent, key, err) : complete(extent, key, err));
    if (extent->is_listed) TRY(part_list_forget(extent->s3->parts, &extent->name, extent->segment, NULL, NULL, err));
    remove_spills(extent, extent->spill_count);
    free(extent->upload_id);
    extent->upload_id = NULL;
    extent->is_listed = false;
    extent->parts = 0;
    extent->segment++;
    return SUCCESS;
}

/* ---- The driver's operations ---- */

/* A full part is sent only when a further byte comes, because the last part is sent differently. */
static struct result make_room(struct s3_extent *extent, struct error *err)
{
    char key[S3_NAME_SIZE];

    if (extent->pending_offset + extent->pending.length == segment_end(extent)) return end_segment(extent, err);
    s3_extent_key(extent->s3, &extent->name, extent->segment, key);
    return send_part(extent, key, err);
}

static size_t room_of(const struct s3_extent *extent)
{
    const uint64_t left = segment_end(extent) - extent->pending_offset;
    const size_t size = part_size(extent);

    return (left < size ? (size_t)left : size) - extent->pending.length;
}

struct result s3_extent_append(struct driver_extent *handle, struct bytes bytes, struct error *err)
{
    struct s3_extent *extent = extent_of(handle);

    while (bytes.length > 0) {
        size_t room = room_of(extent);
        if (room == 0) {
            TRY(make_room(extent, err));
            room = room_of(extent);
        }
        const size_t length = bytes.length < room ? bytes.length : room;
        TRY(buffer_add(&extent->pending, bytes.data, length, err));
        bytes.data += length;
        bytes.length -= length;
    }
    return SUCCESS;
}

static struct result spill(struct s3_extent *extent, struct error *err)
{
    const uint64_t end = extent->pending_offset + extent->pending.length;
    const bool is_crowded = extent->spill_count == SPILLS_MAX - 1;
    const uint64_t offset = is_crowded ? extent->pending_offset : extent->safe_until;
    const struct part_piece piece = {.segment = extent->segment, .offset = offset, .size_bytes = end - offset};
    char key[S3_NAME_SIZE];

    s3_spill_key(extent->s3, &extent->name, &piece, key);
    TRY(s3_put(extent->s3, key,
               (struct bytes){extent->pending.data + (offset - extent->pending_offset), (size_t)piece.size_bytes}, err));
    TRY(part_list_add(extent->s3->parts, &extent->name, &piece, err));
    extent->is_listed = true;
    extent->safe_until = end;
    if (is_crowded) remove_spills(extent, extent->spill_count);
    extent->spills[extent->spill_count++] = piece;
    return SUCCESS;
}

struct result s3_extent_sync(struct driver_extent *handle, struct error *err)
{
    struct s3_extent *extent = extent_of(handle);
    char key[S3_NAME_SIZE];

    TRY(s3_reach(extent->s3, err));
    if (extent->safe_until == extent->pending_offset + extent->pending.length) return SUCCESS;
    if (extent->pending.length < extent->s3->part_bytes) return spill(extent, err);
    s3_extent_key(extent->s3, &extent->name, extent->segment, key);
    return send_part(extent, key, err);
}

struct result s3_extent_finish(struct driver_extent *handle, struct error *err)
{
    struct s3_extent *extent = extent_of(handle);

    TRY(s3_reach(extent->s3, err));
    return end_segment(extent, err);
}

void s3_extent_close(struct driver_extent *handle)
{
    struct s3_extent *extent = extent_of(handle);

    if (extent == NULL) return;
    buffer_done(&extent->pending);
    free(extent->upload_id);
    free(extent);
}

void s3_extent_discard(struct driver_extent *handle)
{
    struct s3_extent *extent = extent_of(handle);
    struct error ignored;
    char key[S3_NAME_SIZE];

    if (extent == NULL) return;
    s3_extent_key(extent->s3, &extent->name, extent->segment, key);
    /* An upload that can't be ended now stays in the list; the removal of the blob ends it. */
    const bool is_gone = extent->upload_id == NULL || s3_abort(extent->s3, key, extent->upload_id, &ignored).ok;
    if (extent->is_listed && is_gone)
        (void)part_list_forget(extent->s3->parts, &extent->name, extent->segment, NULL, NULL, &ignored).ok;
    remove_spills(extent, extent->spill_count);
    for (uint32_t segment = 0; segment < extent->segment; segment++) {
        s3_extent_key(extent->s3, &extent->name, segment, key);
        (void)s3_delete(extent->s3, key, &ignored).ok;
    }
    s3_extent_close(handle);
}
