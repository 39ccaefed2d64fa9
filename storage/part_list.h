/*
 * storage/part_list.h -- the list of objects in buckets that are not complete yet: the tables of migration 0008.
 *
 * Rule: only pieces in this list count. A writer adds a piece after the bucket has stored the piece, and before the writer
 * acknowledges its bytes. A writer that takes the upload over, in this or another process, uses the list alone.
 *
 * The list has its own connections, which are opened when needed: one for each thread that is in a call. Every change may
 * run twice, so after a lost connection a call is tried once more. Thread-safe. Errors: those of pg_run().
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"
#include "base/uuid.h"

struct part_list;

/** `database` as for pg_open(); makes the first connection. */
RESULT part_list_new(const char *database, struct part_list **list_out, struct error *err);
void part_list_free(struct part_list *list);
DEFINE_OWNED(part_list);

struct extent_name {
    struct uuid blob;
    uint32_t extent;
};

#define PART_ETAG_SIZE 129

/** Bytes of an extent that are durable. */
struct part_piece {
    uint32_t segment; /* the number of the object in the extent */
    uint64_t offset;  /* in the extent */
    uint64_t size_bytes;
    uint32_t number; /* of a part, from 1 on; 0: a separate object */
    char etag[PART_ETAG_SIZE];
};

/** An upload that was begun. */
struct part_upload {
    struct extent_name name;
    uint32_t segment;
    const char *upload_id;
};
typedef struct result part_upload_visit(void *context, const struct part_upload *upload, struct error *err);

/** The number of a new extent. No other writer of any blob has this number. */
RESULT part_list_next_extent(struct part_list *list, uint32_t *extent_out, struct error *err);
RESULT part_list_begin(struct part_list *list, const struct part_upload *upload, struct error *err);
RESULT part_list_add(struct part_list *list, const struct extent_name *name, const struct part_piece *piece, struct error *err);
/** All pieces by segment and offset. Among pieces with the same offset the longest is first. The caller frees with free(). */
RESULT part_list_pieces(struct part_list *list, const struct extent_name *name, struct part_piece **pieces_out, size_t *count_out,
                        struct error *err);
/** All uploads of a blob, by extent and segment. */
RESULT part_list_uploads(struct part_list *list, const struct uuid *blob, part_upload_visit *visit, void *context,
                         struct error *err);
/** Removes a segment that is complete or given up. Calls `visit`, unless NULL, with the upload that was listed. */
RESULT part_list_forget(struct part_list *list, const struct extent_name *name, uint32_t segment, part_upload_visit *visit,
                        void *context, struct error *err);
RESULT part_list_forget_blob(struct part_list *list, const struct uuid *blob, struct error *err);
