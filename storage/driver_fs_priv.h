/*
 * storage/driver_fs_priv.h -- what driver_fs*.c share: a folder, names in it, and how an extent is written and read.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "storage/driver.h"

enum {
    FS_PATH_SIZE = 96, /* "ab/", 32 digits, '.', the longest small name */
    FS_WEIGHED = 256 << 10,     /* bytes whose cost is asked for */
    FS_COST_UNKNOWN_NS = 50000, /* what they cost where memory is cheap (measured) */
    FS_COST_MAX_NS = 400000,    /* one that was only unlucky doesn't count for more */
    FS_QUEUES_KEPT = 16,        /* queues of writes that wait for their next extent; more are made while more write */
    FS_STREAMS_MAX = 16,        /* parts that are read past the page cache at a time: a megabyte each */
    FS_PULLED_KEPT = 1 << 12,   /* stretches of parts that were pulled before; a new one takes the place of an old one */
};

struct file_queue;
struct fs_stream;

/** Queues that nobody uses now: to make one costs the kernel more than a small blob. For any number of threads. */
struct fs_queues {
    pthread_mutex_t lock;
    size_t count;
    struct file_queue *idle[FS_QUEUES_KEPT];
};

/** Memory for reads past the page cache, used again. For any number of threads. */
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
    atomic_bool is_direct;      /* a write past the page cache has worked */
    _Atomic uint64_t append_ns; /* what FS_WEIGHED bytes cost into the page cache, of late */
    _Atomic uint64_t read_ns;   /* what they are thought to cost from it before any of a part were read; tests change it */
    atomic_uint extents;        /* begun so far */
    atomic_uint windows;        /* pulled past the page cache, or as a probe, so far */
    _Atomic uint64_t pulled[FS_PULLED_KEPT]; /* names of stretches, each in the place that it says */
};

static inline struct fs_driver *fs_of(struct driver *driver)
{
    return (struct fs_driver *)driver;
}

void fs_extent_path(const struct uuid *blob, uint32_t part, char out[FS_PATH_SIZE]);
/** The folder that holds the path. */
RESULT fs_open_folder(int root, const char *path, int *folder_out, struct error *err);
/** Makes the name of a new or removed file durable. */
RESULT fs_sync_folder(int root, const char *path, struct error *err);
/** Whether the file has O_DIRECT now as asked; *is_direct is what it had, and has. */
bool fs_set_direct(int file, bool wanted, bool *is_direct);

/**
 * A running mean of what FS_WEIGHED bytes through the page cache cost a thread of its own time (others that run meanwhile don't
 * count), in which a new one counts for 1 / weight.
 */
static inline uint64_t fs_mean_ns(uint64_t mean_ns, uint64_t cost_ns, uint64_t weight)
{
    return (mean_ns * (weight - 1) + (cost_ns < FS_COST_MAX_NS ? cost_ns : FS_COST_MAX_NS)) / weight;
}

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

/** driver_operations, as far as they read extents. */
RESULT fs_part_open(struct driver *driver, const struct uuid *blob, uint32_t number, struct driver_part **part_out, struct error *err);
uint64_t fs_part_size(const struct driver_part *part);
RESULT fs_part_read(struct driver_part *part, uint64_t offset, uint8_t *into, size_t length, struct error *err);
bool fs_part_read_at_once(struct driver_part *part, uint64_t offset, uint8_t *into, size_t length);
void fs_part_ahead(struct driver_part *part, uint64_t offset, uint64_t length);
void fs_part_pull(struct driver_part *handle, uint64_t offset, uint64_t length);
void fs_part_forget(struct driver_part *part, uint64_t offset, uint64_t length);
void fs_part_close(struct driver_part *handle);
void fs_streams_done(struct fs_streams *streams);
