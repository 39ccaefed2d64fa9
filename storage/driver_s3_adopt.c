/* Completes the extent of a writer that ended early. A later writer does this, in any process; two writers may do it at the same
 * time. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "storage/driver_s3_priv.h"

enum { ROUNDS_MAX = 3 }; /* the list is read again after another writer completed the extent in the meantime */

/* One segment, as in the list. */
struct orphan {
    const struct extent_name *name;
    uint32_t segment;
    const struct part_piece *pieces;
    size_t count;
    char *upload_id;       /* owned; NULL: no part was sent */
    struct buffer spilled; /* bytes after the last part */
};

static void orphan_done(struct orphan *orphan)
{
    free(orphan->upload_id);
    buffer_done(&orphan->spilled);
}
#define OWNED_ORPHAN __attribute__((cleanup(orphan_done))) struct orphan

static struct result find_upload(void *context, const struct part_upload *upload, struct error *err)
{
    struct orphan *orphan = context;

    if (upload->name.extent != orphan->name->extent || upload->segment != orphan->segment) return SUCCESS;
    orphan->upload_id = memory_copy_text(upload->upload_id, strlen(upload->upload_id));
    if (orphan->upload_id == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an upload id");
    return SUCCESS;
}

/* The end of the last part. */
static uint64_t parts_end(const struct s3_driver *s3, const struct orphan *orphan)
{
    uint64_t end = orphan->segment * s3->segment_bytes;

    for (size_t i = 0; i < orphan->count; i++)
        if (orphan->pieces[i].number > 0 && orphan->pieces[i].offset == end) end += orphan->pieces[i].size_bytes;
    return end;
}

static struct result gather_spilled(struct s3_driver *s3, struct orphan *orphan, struct error *err)
{
    uint64_t end = parts_end(s3, orphan);
    char key[S3_NAME_SIZE];

    for (size_t i = 0; i < orphan->count; i++) {
        const struct part_piece *piece = &orphan->pieces[i];
        if (piece->number > 0 || piece->offset != end) continue;
        s3_spill_key(s3, orphan->name, piece, key);
        TRY(s3_get(s3, key, &orphan->spilled, err));
        end += piece->size_bytes;
    }
    return SUCCESS;
}

static struct result complete_with(struct s3_driver *s3, const struct orphan *orphan, const char *key, struct error *err)
{
    const struct s3_part_name last = {key, orphan->upload_id, S3_ADOPTED_NUMBER};
    struct part_piece *pieces = memory_zeroed(orphan->count + 1, sizeof *pieces);
    size_t count = orphan->count;
    struct result result = SUCCESS;

    if (pieces == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for %zu parts", orphan->count);
    memcpy(pieces, orphan->pieces, orphan->count * sizeof *pieces);
    if (orphan->spilled.length > 0) {
        pieces[count] = (struct part_piece){.number = last.number, .size_bytes = orphan->spilled.length};
        result = s3_put_part(s3, &last, buffer_bytes(&orphan->spilled), pieces[count++].etag, err);
    }
    if (result.ok) result = s3_complete(s3, &last, pieces, count, err);
    free(pieces);
    return result;
}

static struct result make_whole(struct s3_driver *s3, const struct orphan *orphan, struct error *err)
{
    char key[S3_NAME_SIZE];

    s3_extent_key(s3, orphan->name, orphan->segment, key);
    if (orphan->upload_id != NULL) return complete_with(s3, orphan, key, err);
    return s3_put(s3, key, buffer_bytes(&orphan->spilled), err);
}

/* After NOT_FOUND. A first try, a crashed writer or another later writer may have completed the object before the list was
 * updated. */
static struct result check_whole(struct s3_driver *s3, const struct orphan *orphan, struct error *err)
{
    struct buffer OWNED_BUFFER first = BUFFER(1);
    char key[S3_NAME_SIZE];
    uint64_t whole = 0;
    const uint64_t wanted = parts_end(s3, orphan) + orphan->spilled.length - orphan->segment * s3->segment_bytes;

    s3_extent_key(s3, orphan->name, orphan->segment, key);
    TRY(s3_get_range(s3, key, 0, &first, &whole, err));
    if (whole < wanted) return failure(err, ERROR_CORRUPT, "extent %u is cut", orphan->name->extent);
    return SUCCESS;
}

/* Whether the list has the start of the segment. If not, the object was completed and removed from the list, and then its old
 * writer added more bytes. These bytes were not acknowledged to anybody. */
static bool has_start(const struct s3_driver *s3, const struct orphan *orphan)
{
    return orphan->spilled.length > 0 || parts_end(s3, orphan) > orphan->segment * s3->segment_bytes;
}

static void remove_spilled(struct s3_driver *s3, const struct orphan *orphan)
{
    struct error ignored;
    char key[S3_NAME_SIZE];
    bool ok = true; /* after a failure, the pieces that are left are removed with the blob */

    for (size_t i = 0; i < orphan->count && ok; i++) {
        if (orphan->pieces[i].number > 0) continue;
        s3_spill_key(s3, orphan->name, &orphan->pieces[i], key);
        ok = s3_delete(s3, key, &ignored).ok;
    }
}

struct late_upload {
    struct s3_driver *s3;
    const struct orphan *orphan;
};

/* An upload that its writer listed after the list was read. The extent is complete without this upload, and nothing may be
 * added. */
static struct result end_late_upload(void *context, const struct part_upload *upload, struct error *err)
{
    const struct late_upload *late = context;
    struct error ignored;
    char key[S3_NAME_SIZE];

    (void)err;
    if (late->orphan->upload_id != NULL && strcmp(late->orphan->upload_id, upload->upload_id) == 0) return SUCCESS;
    s3_extent_key(late->s3, &upload->name, upload->segment, key);
    (void)s3_abort(late->s3, key, upload->upload_id, &ignored)
        .ok; /* if this fails, the upload's writer still notices that its parts are not in the list */
    return SUCCESS;
}

static struct result adopt_segment(struct s3_driver *s3, const struct extent_name *name, const struct part_piece *pieces,
                                   size_t count, struct error *err)
{
    OWNED_ORPHAN orphan = {.name = name,
                           .segment = pieces[0].segment,
                           .pieces = pieces,
                           .count = count,
                           .spilled = BUFFER((size_t)s3->part_bytes * S3_PART_GROWTH)};

    TRY(part_list_uploads(s3->parts, &name->blob, find_upload, &orphan, err));
    TRY(gather_spilled(s3, &orphan, err));
    struct result result = has_start(s3, &orphan) ? make_whole(s3, &orphan, err) : check_whole(s3, &orphan, err);
    if (!result.ok && err->kind == ERROR_NOT_FOUND) result = check_whole(s3, &orphan, err);
    TRY(result);
    struct late_upload late = {s3, &orphan};
    TRY(part_list_forget(s3->parts, name, orphan.segment, end_late_upload, &late, err));
    remove_spilled(s3, &orphan);
    return SUCCESS;
}

static struct result adopt_all(struct s3_driver *s3, const struct extent_name *name, const struct part_piece *pieces,
                               size_t count, struct error *err)
{
    while (count > 0) {
        const size_t length = s3_first_of(pieces, count, pieces[0].segment + 1);
        TRY(adopt_segment(s3, name, pieces, length, err));
        pieces += length;
        count -= length;
    }
    return SUCCESS;
}

/* An extent without entries in the list must be complete. */
static struct result require_whole(struct s3_driver *s3, const struct extent_name *name, struct error *err)
{
    struct buffer OWNED_BUFFER first = BUFFER(1);
    char key[S3_NAME_SIZE];
    uint64_t whole = 0;

    s3_extent_key(s3, name, 0, key);
    const struct result result = s3_get_range(s3, key, 0, &first, &whole, err);
    if (!result.ok && err->kind == ERROR_NOT_FOUND) return failure(err, ERROR_CORRUPT, "extent %u is gone", name->extent);
    return result;
}

static struct result adopt_once(struct s3_driver *s3, const struct extent_name *name, struct error *err)
{
    struct part_piece *pieces = NULL;
    size_t count = 0;

    TRY(part_list_pieces(s3->parts, name, &pieces, &count, err));
    const struct result result = count == 0 ? require_whole(s3, name, err) : adopt_all(s3, name, pieces, count, err);
    free(pieces);
    return result;
}

struct result s3_adopt(struct s3_driver *s3, const struct extent_name *name, struct error *err)
{
    struct result result = adopt_once(s3, name, err);

    /* An object of the list is missing: another writer has completed the extent, and the list says so by now. */
    for (int round = 1; round < ROUNDS_MAX && !result.ok && err->kind == ERROR_NOT_FOUND; round++)
        result = adopt_once(s3, name, err);
    if (!result.ok && err->kind == ERROR_NOT_FOUND)
        return failure(err, ERROR_CORRUPT, "bytes of extent %u are gone from the bucket", name->extent);
    return result;
}
