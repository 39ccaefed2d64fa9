/*
 * storage/driver_fs_priv.h -- shared by driver_fs*.c: the folder, its names, and the writing and reading of extents.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "storage/driver.h"

enum {
    FS_PATH_SIZE = 96,   /* "ab/", 32 digits, '.', the longest small name */
    FS_QUEUES_KEPT = 16, /* idle queues of writes that are kept; more are made when needed */
    FS_STREAMS_MAX = 16, /* parts that are read with direct I/O at a time: a megabyte each */
};

struct file_queue;
struct fs_stream;

/** Idle queues. They are reused, because a new queue costs the kernel more than the write of a small blob. Thread-safe. */
struct fs_queues {
    pthread_mutex_t lock;
    size_t count;
    struct file_queue *idle[FS_QUEUES_KEPT];
};

/** Memory for direct reads, reused. Thread-safe. */
struct fs_streams {
    pthread_mutex_t lock;
    size_t used, count;
    struct fs_stream *idle[FS_STREAMS_MAX];
};

struct fs_driver {
    struct driver driver;
    int root;
    char *path; /* of the root, as it was given */
    struct fs_queues queues;
    struct fs_streams streams;
    atomic_bool is_direct; /* a direct write has worked */
    uint64_t cached_max;   /* longer extents use direct I/O */
};

static inline struct fs_driver *fs_of(struct driver *driver)
{
    return (struct fs_driver *)driver;
}

/** The path still names the folder that was opened. ERROR_INVALID. */
RESULT fs_check_root(const struct fs_driver *fs, struct error *err);
/** The folder's mark and file system (driver_fs_survey.c). */
RESULT fs_survey(struct driver *driver, struct driver_survey *survey_out, struct error *err);
RESULT fs_mark(struct driver *driver, const char *mark, struct error *err);

void fs_extent_path(const struct uuid *blob, uint32_t part, char out[FS_PATH_SIZE]);
/** Opens the folder that holds the path. */
RESULT fs_open_folder(int root, const char *path, int *folder_out, struct error *err);
/** Makes the creation or removal of a name durable. */
RESULT fs_sync_folder(int root, const char *path, struct error *err);
/** Sets or clears O_DIRECT. *is_direct is the present state before and after. False: that failed. */
bool fs_set_direct(int file, bool wanted, bool *is_direct);

/** The operations that write extents. */
RESULT fs_extent_create(struct driver *driver, const struct uuid *blob, const struct driver_history *history,
                        struct driver_extent **extent_out, struct error *err);
uint32_t fs_extent_part(const struct driver_extent *extent);
RESULT fs_extent_append(struct driver_extent *extent, struct bytes bytes, struct error *err);
RESULT fs_extent_sync(struct driver_extent *extent, struct error *err);
RESULT fs_extent_finish(struct driver_extent *extent, struct error *err);
void fs_extent_discard(struct driver_extent *extent);
void fs_extent_close(struct driver_extent *extent);
void fs_queues_done(struct fs_queues *queues);

/** The operations that read extents. */
RESULT fs_part_open(struct driver *driver, const struct uuid *blob, uint32_t number, struct driver_part **part_out,
                    struct error *err);
bool fs_part_open_cached(struct driver *driver, const struct uuid *blob, uint32_t number, struct driver_part **part_out);
uint64_t fs_part_size(const struct driver_part *part);
RESULT fs_part_read(struct driver_part *part, uint64_t offset, uint8_t *into, size_t length, struct error *err);
bool fs_part_read_cached(struct driver_part *part, uint64_t offset, uint8_t *into, size_t length);
void fs_part_ahead(struct driver_part *part, uint64_t offset, uint64_t length);
void fs_part_pull(struct driver_part *handle, uint64_t offset, uint64_t length);
void fs_part_forget(struct driver_part *part, uint64_t offset, uint64_t length);
void fs_part_close(struct driver_part *handle);
void fs_streams_done(struct fs_streams *streams);
