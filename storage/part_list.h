/*
 * storage/part_list.h -- what is known of objects in buckets that are not whole yet: the tables of migration 0008.
 *
 * Rule: what is not in this list does not count. A writer adds a piece after the bucket has it and before it tells anyone
 * that it is safe; whoever takes the upload over, in this process or another, goes by the list alone.
 *
 * Connections are the list's own, opened as they are needed: one for each thread that is in a call. Every change may be
 * made twice, so a lost connection is tried once more. For any number of threads.
 * Errors: those of pg_run().
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"
#include "base/uuid.h"

struct part_list;

/** `database` as for pg_open(); the first connection is made here. */
RESULT part_list_new(const char *database, struct part_list **list_out, struct error *err);
void part_list_free(struct part_list *list);
DEFINE_OWNED(part_list);

struct extent_name {
    struct uuid blob;
    uint32_t extent;
};

#define PART_ETAG_SIZE 129

/** Bytes of an extent that are safe. */
struct part_piece {
    uint32_t segment; /* which of the extent's objects */
    uint64_t place;   /* in the extent */
    uint64_t size_bytes;
    uint32_t number; /* of a part, from 1 on; 0: an object of its own */
    char etag[PART_ETAG_SIZE];
};

/** An upload that was begun. */
struct part_upload {
    struct extent_name name;
    uint32_t segment;
    const char *upload_id;
};
typedef struct result part_upload_visit(void *context, const struct part_upload *upload, struct error *err);

/** A number that no other writer of any blob has. */
RESULT part_list_next_extent(struct part_list *list, uint32_t *extent_out, struct error *err);
RESULT part_list_begin(struct part_list *list, const struct part_upload *upload, struct error *err);
RESULT part_list_add(struct part_list *list, const struct extent_name *name, const struct part_piece *piece,
                     struct error *err);
/** All pieces by segment and place, the largest first where several begin. The caller frees with free(). */
RESULT part_list_pieces(struct part_list *list, const struct extent_name *name, struct part_piece **pieces_out,
                        size_t *count_out, struct error *err);
/** All uploads of a blob, by extent and segment. */
RESULT part_list_uploads(struct part_list *list, const struct uuid *blob, part_upload_visit *visit, void *context,
                         struct error *err);
/** One segment is whole, or given up; calls `visit`, if not NULL, with the upload that was listed. */
RESULT part_list_forget(struct part_list *list, const struct extent_name *name, uint32_t segment, part_upload_visit *visit,
                        void *context, struct error *err);
RESULT part_list_forget_blob(struct part_list *list, const struct uuid *blob, struct error *err);
