/*
 * storage/driver.h -- where the bytes of one region lie: a folder, an object store, or memory.
 *
 * A driver knows no keys and no format. It keeps, for each blob, append-only extents and a few small objects, all
 * of them named by the blob's id. Nothing is ever written twice: an extent gets a number that no writer had before
 * it, and a small object is refused when its name is taken. So a writer that wakes up late can overwrite nothing.
 *
 * In a bucket (driver_s3.h) an extent is an object: one PUT, or a multipart upload that whoever begins the next extent
 * completes. A driver may also lay all extents of a blob out as one object; then `is_flat` is set, and pieces say which
 * bytes of each count.
 *
 * A driver is for any number of threads; an extent or a part that is open is for one thread at a time.
 * Errors: ERROR_FULL without room, ERROR_NOT_FOUND, ERROR_CONFLICT when a name is taken, ERROR_CORRUPT when an
 * object ends too early, ERROR_UNAVAILABLE for whatever else the disk or the network does, ERROR_NO_MEMORY.
 * An append, sync or finish that failed is never tried again on the same extent.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"
#include "base/uuid.h"

struct driver;
struct driver_extent; /* being written; each driver has its own kind */
struct driver_part;   /* being read; each driver has its own kind */

#define DRIVER_NAME_MAX 40 /* characters of a small object's name: lower-case letters, digits; ours have 33 */

#define DRIVER_APPENDS_HELD 2 /* whose bytes a driver may still be writing */

/** One object, as a listing shows it. */
struct driver_entry {
    struct uuid blob;
    bool is_extent;
    uint32_t part;                  /* of an extent */
    char name[DRIVER_NAME_MAX + 1]; /* of a small object; empty for an extent */
    uint64_t size_bytes;
    int64_t modified_ms; /* wall time of the last append */
};
typedef struct result driver_visit(void *context, const struct driver_entry *entry, struct error *err);

/** An earlier extent of the same blob that counts: its bytes from `place` up to the next one's place. */
struct driver_piece {
    uint64_t place; /* where in the whole blob its first byte lies, the header's 4096 bytes counted */
    uint32_t part;
};

/** What a new extent follows. */
struct driver_history {
    const struct driver_piece *pieces;
    size_t count;
    uint64_t place; /* where the new extent begins */
    uint64_t expected; /* bytes it will have as an object of its own, as far as anybody knows; 0: nobody does */
};

/** Of a file system, in bytes. */
struct driver_room {
    uint64_t size_bytes, free_bytes;
};

/** What one kind of driver does; `driver->operations->extent_append(extent, ...)`. The closers take NULL. */
struct driver_operations {
    const char *kind; /* "fs", "s3", "memory"; as in table region */
    bool is_flat;     /* all extents of a blob end up in one object; else each is an object of its own */

    /** Begins an extent with a number that is new and higher than those before it. */
    struct result (*extent_create)(struct driver *driver, const struct uuid *blob,
                                   const struct driver_history *history, struct driver_extent **extent_out,
                                   struct error *err);
    uint32_t (*extent_part)(const struct driver_extent *extent);
    /** The header, then whole records; only the very last call may end within one. Fastest: page-aligned. Such bytes stay as
     *  they are until DRIVER_APPENDS_HELD more calls, a sync, a finish, or whatever ends the extent has returned: they may be
     *  written meanwhile, and a failure is told by one of these. */
    struct result (*extent_append)(struct driver_extent *extent, struct bytes bytes, struct error *err);
    /** All that was appended, and the extent's name, survive a crash. */
    struct result (*extent_sync)(struct driver_extent *extent, struct error *err);
    /** As sync, and nothing will be appended any more. The bytes can be read afterwards. */
    struct result (*extent_finish)(struct driver_extent *extent, struct error *err);
    /** Closes an extent that nothing names, and removes it as well as it can. */
    void (*extent_discard)(struct driver_extent *extent);
    void (*extent_close)(struct driver_extent *extent);

    /** Offsets count from the start of the object. */
    struct result (*part_open)(struct driver *driver, const struct uuid *blob, uint32_t part,
                               struct driver_part **part_out, struct error *err);
    /** The same without waiting for a disk or a network; false: not now, and part_open will open it or say why. NULL: never. */
    bool (*part_open_at_once)(struct driver *driver, const struct uuid *blob, uint32_t part, struct driver_part **part_out);
    uint64_t (*part_size)(const struct driver_part *part);
    struct result (*part_read)(struct driver_part *part, uint64_t offset, uint8_t *into, size_t length,
                               struct error *err);
    /** The same without waiting for a disk or a network; false: not now, and part_read will bring it or say why. NULL: never. */
    bool (*part_read_at_once)(struct driver_part *part, uint64_t offset, uint8_t *into, size_t length);
    /** Hint: these bytes are read soon. */
    void (*part_ahead)(struct driver_part *part, uint64_t offset, uint64_t length);
    /** As part_ahead, of who reads them in order to serve them: the driver may have them come another way than into the page
     *  cache, and part_read_at_once says false meanwhile. Fastest: page-aligned. NULL: as part_ahead. */
    void (*part_pull)(struct driver_part *part, uint64_t offset, uint64_t length);
    /** Hint: these are not read again (keeps a scrub out of the page cache). */
    void (*part_forget)(struct driver_part *part, uint64_t offset, uint64_t length);
    void (*part_close)(struct driver_part *part);

    /** Small objects: durable when put returns; at most the buffer's maximum is read. Removing nothing is fine. */
    struct result (*small_put)(struct driver *driver, const struct uuid *blob, const char *name,
                               struct bytes content, struct error *err);
    struct result (*small_get)(struct driver *driver, const struct uuid *blob, const char *name,
                               struct buffer *content, struct error *err);
    struct result (*small_remove)(struct driver *driver, const struct uuid *blob, const char *name,
                                  struct error *err);

    /** Removes every object of the blob but the extents whose numbers are kept. Removing nothing is fine. */
    struct result (*remove)(struct driver *driver, const struct uuid *blob, const uint32_t *kept_parts,
                            size_t kept_count, struct error *err);
    /** Calls `visit` for each object of the region, in no order; its failure ends the listing. */
    /* A large extent may be visited in several pieces. */
    struct result (*list)(struct driver *driver, driver_visit *visit, void *context, struct error *err);
    /** Asks whether the place can be used and is where the configuration says: ERROR_INVALID if not, a person must mend it;
     *  of a bucket (bucket_location), everything is ERROR_UNAVAILABLE until it is asked again. NULL: nothing can happen to it. */
    struct result (*check)(struct driver *driver, struct error *err);
    /** How large the file system is, and how much of it this user may still fill. NULL: there is no such bound. */
    struct result (*room)(struct driver *driver, struct driver_room *room_out, struct error *err);
    void (*close)(struct driver *driver);
};

/** Each driver's own struct starts with this. */
struct driver {
    const struct driver_operations *operations;
};

/** Calls close; nothing may be open. */
void driver_free(struct driver *driver);
DEFINE_OWNED(driver);

/**
 * A folder of a local file system. Makes `root` (its parent must exist) and the folders "00" .. "ff" in it, mode
 * 0700. Names: docs/formats/sjb1.md, "Files". Extents of at most `cached_max` bytes are written into the page cache and read from
 * it, longer ones go past it, where that works; an extent whose length nobody announced, from there on.
 */
RESULT driver_fs_open(const char *root, uint64_t cached_max, struct driver **driver_out, struct error *err);

struct driver_memory_options {
    uint64_t capacity_bytes; /* ERROR_FULL beyond it; 0: no limit */
    unsigned delay_ms;       /* each operation that would reach a disk takes this long */
    bool is_flat;            /* lays blobs out as an object store does */
};
/** The same rules in memory; all is lost when it is closed. `options` may be NULL. */
RESULT driver_memory_open(const struct driver_memory_options *options, struct driver **driver_out,
                          struct error *err);
/** What a power cut does: bytes that no sync covered are lost, as are extents that were never synced. */
void driver_memory_lose_unsynced(struct driver *driver);
/** A larger or smaller disk from now on. */
void driver_memory_set_capacity(struct driver *driver, uint64_t capacity_bytes);
