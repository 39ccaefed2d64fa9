/*
 * storage/driver_fs_priv.h -- what driver_fs*.c share: a folder, names in it, and how an extent is written.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "storage/driver.h"

enum {
    FS_PATH_SIZE = 96, /* "ab/", 32 digits, '.', the longest small name */
    FS_QUEUES_KEPT = 16, /* queues of writes that wait for their next extent; more are made while more write */
};

struct write_queue;

/** Queues that nobody uses now: to make one costs the kernel more than a small blob. For any number of threads. */
struct fs_queues {
    pthread_mutex_t lock;
    size_t count;
    struct write_queue *idle[FS_QUEUES_KEPT];
};

struct fs_driver {
    struct driver driver;
    int root;
    struct fs_queues queues;
    atomic_bool is_direct; /* a write past the page cache has worked */
    _Atomic uint64_t cost_ns; /* of 256 KiB written into the page cache, of late */
    atomic_uint extents;      /* begun so far */
};

static inline struct fs_driver *fs_of(struct driver *driver)
{
    return (struct fs_driver *)driver;
}

void fs_extent_path(const struct uuid *blob, uint32_t part, char out[FS_PATH_SIZE]);
/** Makes the name of a new or removed file durable. */
RESULT fs_sync_folder(int root, const char *path, struct error *err);

/** driver_operations, as far as they write extents. */
RESULT fs_extent_create(struct driver *driver, const struct uuid *blob, const struct driver_history *history,
                        struct driver_extent **extent_out, struct error *err);
uint32_t fs_extent_part(const struct driver_extent *extent);
RESULT fs_extent_append(struct driver_extent *extent, struct bytes bytes, struct error *err);
RESULT fs_extent_sync(struct driver_extent *extent, struct error *err);
RESULT fs_extent_finish(struct driver_extent *extent, struct error *err);
void fs_extent_discard(struct driver_extent *extent);
void fs_extent_close(struct driver_extent *extent);
void fs_queues_done(struct fs_queues *queues);
