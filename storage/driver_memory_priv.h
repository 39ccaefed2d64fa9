/*
 * storage/driver_memory_priv.h -- the objects of the memory driver.
 *
 * All functions except memory_reach() are called with the lock held.
 */
#pragma once

#include <pthread.h>

#include "storage/driver.h"

enum { BUCKETS = 256 }; /* by the first byte of the blob's id */

enum object_kind { OBJECT_EXTENT, OBJECT_SMALL, OBJECT_WHOLE /* flat: made by finish */ };

struct object {
    struct object *next; /* in its bucket */
    struct driver_entry entry;
    enum object_kind kind;
    unsigned references; /* the bucket's, and one for each open extent or part */
    bool was_synced;
    size_t synced; /* bytes that survive a power cut */
    struct buffer content;
};

struct memory_driver {
    struct driver driver;
    struct driver_operations operations; /* a copy: is_flat differs */
    pthread_mutex_t lock;
    uint64_t capacity, used;
    unsigned delay_ms;
    struct object *buckets[BUCKETS];
};

/** Called by every operation that would use a disk: waits, and may fail on demand. */
RESULT memory_reach(const struct memory_driver *memory, struct error *err);

/** The list of objects whose blob id has this first byte. */
struct object **memory_bucket(struct memory_driver *memory, const struct uuid *blob);
/** NULL if there is none. `part` is used for extents; `name` is "" except for small objects. */
struct object *memory_find(struct memory_driver *memory, const struct uuid *blob, enum object_kind kind, uint32_t part,
                           const char *name);
/** Creates an empty object in its bucket. */
RESULT memory_create(struct memory_driver *memory, const struct uuid *blob, enum object_kind kind, struct object **object_out,
                     struct error *err);
/** ERROR_FULL beyond the capacity. */
RESULT memory_append(struct memory_driver *memory, struct object *object, struct bytes bytes, struct error *err);
/** Removes an object from its bucket. Open extents and parts keep it, as with files. */
void memory_unlink(struct memory_driver *memory, struct object *unwanted);
void memory_unreference(struct memory_driver *memory, struct object *object);
