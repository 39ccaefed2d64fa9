/*
 * storage/driver_s3_priv.h -- shared by driver_s3*.c: the names of objects, and how an extent is completed.
 */
#pragma once

#include <stdatomic.h>

#include "storage/driver_s3.h"
#include "storage/part_list.h"
#include "storage/s3_answer.h"

enum {
    S3_PREFIX_SIZE = 128,
    S3_SUFFIX_SIZE = 48,                                         /* a small object's name, or "e4294967295.4294967295" */
    S3_NAME_SIZE = S3_PREFIX_SIZE + 3 + 32 + 1 + S3_SUFFIX_SIZE, /* "ab/", 32 digits, '.' */
    S3_PART_GROWTH = 3,                                          /* size of the largest parts, in smallest parts */
    S3_ADOPTED_NUMBER = 10000, /* of the part that completes another writer's extent; a writer's own parts have lower numbers */
};

enum s3_placement { S3_UNCHECKED, S3_IN_PLACE, S3_ELSEWHERE };

struct s3_driver {
    struct driver driver;
    struct s3 *s3;
    struct part_list *parts;
    char prefix[S3_PREFIX_SIZE], region[64];
    char bucket[64], location[S3_LOCATION_SIZE];
    uint64_t segment_bytes;
    uint32_t part_bytes;
    _Atomic int placement;
};

static inline struct s3_driver *s3_of(struct driver *driver)
{
    return (struct s3_driver *)driver;
}

/** What the bucket says about itself (driver_s3_survey.c). */
RESULT s3_survey(struct driver *driver, struct driver_survey *survey_out, struct error *err);
RESULT s3_mark(struct driver *driver, const char *mark, struct error *err);
RESULT s3_ask_location(struct s3_driver *s3, char location_out[S3_LOCATION_SIZE], struct error *err);

/** Checks that the bucket is where it must be. Asks the store once; driver_operations.check asks each time. */
RESULT s3_reach(struct s3_driver *s3, struct error *err);

/** "models/ab/abcd....e7"; for later segments of an extent "models/ab/abcd....e7.1". */
void s3_name(const struct s3_driver *s3, const struct uuid *blob, const char *suffix, char name_out[S3_NAME_SIZE]);
void s3_extent_key(const struct s3_driver *s3, const struct extent_name *name, uint32_t segment, char key_out[S3_NAME_SIZE]);
/** The key of the object that holds bytes of an extent which are too few for a part. */
void s3_spill_key(const struct s3_driver *s3, const struct extent_name *name, const struct part_piece *piece,
                  char key_out[S3_NAME_SIZE]);

RESULT s3_put(struct s3_driver *s3, const char *key, struct bytes content, struct error *err);
/** Appends the whole object. */
RESULT s3_get(struct s3_driver *s3, const char *key, struct buffer *content, struct error *err);
/** Appends `length` bytes from `offset` on, or as many as there are; *whole_out is the length of the object. */
RESULT s3_get_range(struct s3_driver *s3, const char *key, uint64_t offset, struct buffer *content, uint64_t *whole_out,
                    struct error *err);
/** Removes an object. Success also if it does not exist. */
RESULT s3_delete(struct s3_driver *s3, const char *key, struct error *err);

/** Names one part of a multipart upload. */
struct s3_part_name {
    const char *key, *upload_id;
    uint32_t number;
};
RESULT s3_put_part(struct s3_driver *s3, const struct s3_part_name *part, struct bytes content, char etag_out[S3_ETAG_SIZE],
                   struct error *err);
/** The index of a segment's first piece; all pieces before it are of earlier segments. */
static inline size_t s3_first_of(const struct part_piece *pieces, size_t count, uint32_t segment)
{
    size_t first = 0;

    while (first < count && pieces[first].segment < segment) first++;
    return first;
}
/** Completes the upload: makes one object of the pieces that are parts (number > 0). Success also if that was done before. */
RESULT s3_complete(struct s3_driver *s3, const struct s3_part_name *upload, const struct part_piece *pieces, size_t count,
                   struct error *err);
/** Ends an upload. Success also if it does not exist. */
RESULT s3_abort(struct s3_driver *s3, const char *key, const char *upload_id, struct error *err);
/** Completes an extent that its writer left incomplete, from all entries of the list. Success also if it is complete already. */
RESULT s3_adopt(struct s3_driver *s3, const struct extent_name *name, struct error *err);

struct result s3_extent_create(struct driver *driver, const struct uuid *blob, const struct driver_history *history,
                               struct driver_extent **extent_out, struct error *err);
uint32_t s3_extent_part(const struct driver_extent *extent);
struct result s3_extent_append(struct driver_extent *handle, struct bytes bytes, struct error *err);
struct result s3_extent_sync(struct driver_extent *handle, struct error *err);
struct result s3_extent_finish(struct driver_extent *handle, struct error *err);
void s3_extent_discard(struct driver_extent *handle);
void s3_extent_close(struct driver_extent *handle);

struct result s3_part_open(struct driver *driver, const struct uuid *blob, uint32_t number, struct driver_part **part_out,
                           struct error *err);
uint64_t s3_part_size(const struct driver_part *part);
struct result s3_part_read(struct driver_part *handle, uint64_t offset, uint8_t *into, size_t length, struct error *err);
void s3_part_hint(struct driver_part *part, uint64_t offset, uint64_t length);
void s3_part_close(struct driver_part *handle);
