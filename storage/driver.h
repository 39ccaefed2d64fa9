/*
 * storage/driver.h -- the storage of one region's bytes: a folder, an object store, or memory.
 *
 * A driver knows no keys and no format. For each blob it keeps append-only extents and a few small objects, all named by
 * the blob's id. Nothing is ever overwritten: a new extent gets a number that no earlier writer had, and a small object is
 * refused if its name is taken. So a writer that continues late can't overwrite anything.
 *
 * In a bucket (driver_s3.h) an extent is an object: one PUT, or a multipart upload that the writer of the next extent
 * completes. A driver may also store all extents of a blob as one object: then `is_flat` is set, and a list of pieces names
 * the bytes of each extent that belong to the blob.
 *
 * A driver is thread-safe; an open extent or part is for one thread at a time. Errors: ERROR_FULL without space,
 * ERROR_NOT_FOUND, ERROR_CONFLICT if a name is taken, ERROR_CORRUPT if an object is too short, ERROR_UNAVAILABLE for any
 * other failure of the disk or the network, ERROR_NO_MEMORY. After a failed append, sync or finish an extent is not used
 * any more.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"
#include "base/uuid.h"

struct driver;
struct driver_extent; /* being written; each driver has its own struct */
struct driver_part;   /* being read; each driver has its own struct */

#define DRIVER_NAME_MAX 40 /* characters of a small object's name: lower-case letters, digits; ours have 33 */

#define DRIVER_APPENDS_HELD 2 /* appends whose bytes a driver may still be writing */

/** One object of a listing. */
struct driver_entry {
    struct uuid blob;
    bool is_extent;
    uint32_t part;                  /* of an extent */
    char name[DRIVER_NAME_MAX + 1]; /* of a small object; "" for an extent */
    uint64_t size_bytes;
    int64_t modified_ms; /* wall time of the last append */
};
typedef struct result driver_visit(void *context, const struct driver_entry *entry, struct error *err);

/** A piece of an earlier extent of the same blob: the bytes from `offset` up to the next piece's offset belong to the blob. */
struct driver_piece {
    uint64_t offset; /* of its first byte in the whole blob, including the header's 4096 bytes */
    uint32_t part;
};

/** The extents before a new one. */
struct driver_history {
    const struct driver_piece *pieces;
    size_t count;
    uint64_t offset;   /* where the new extent begins */
    uint64_t expected; /* its expected length as a separate object; 0: unknown */
};

/** Space in a file system, in bytes. */
struct driver_room {
    uint64_t size_bytes, free_bytes;
};

#define DRIVER_MARK_SIZE 33 /* 32 hex digits: random, and written once */

/** What a storage says about rules that act on its objects without us. */
struct driver_rules {
    enum { RULES_NOT_TOLD, RULES_NONE, RULES_SOME } told;
    char what[128]; /* of the first rule, or why nothing is told; "" for none */
};

/** What a storage says about itself. */
struct driver_survey {
    char mark[DRIVER_MARK_SIZE];  /* "": it has none */
    char place[64];               /* fs: the kind of its file system, "ext4"; s3: the bucket's location */
    struct driver_rules copies;   /* objects are copied elsewhere */
    struct driver_rules expiry;   /* objects are removed, or moved to another class of storage */
    struct driver_rules versions; /* removed objects stay as older versions */
};

/** The operations of one kind of driver: `driver->operations->extent_append(extent, ...)`. Functions that close accept NULL. */
struct driver_operations {
    const char *kind; /* "fs", "s3", "memory"; as in table region */
    bool is_flat;     /* all extents of a blob become one object; else each is a separate object */

    /** Begins an extent. Its number is new, and higher than all before it. */
    struct result (*extent_create)(struct driver *driver, const struct uuid *blob, const struct driver_history *history,
                                   struct driver_extent **extent_out, struct error *err);
    uint32_t (*extent_part)(const struct driver_extent *extent);
    /** Appends the header, then whole records; only the very last call may end within a record. Page-aligned bytes are fastest.
     *  The bytes must stay unchanged until one of these has returned: DRIVER_APPENDS_HELD more calls, a sync, a finish, or the
     *  function that ends the extent. The driver may write the bytes until then. If that write fails, one of these calls returns
     *  the failure. */
    struct result (*extent_append)(struct driver_extent *extent, struct bytes bytes, struct error *err);
    /** Makes all appended bytes, and the extent's name, durable. */
    struct result (*extent_sync)(struct driver_extent *extent, struct error *err);
    /** As extent_sync. After it nothing can be appended, and the bytes can be read. */
    struct result (*extent_finish)(struct driver_extent *extent, struct error *err);
    /** Closes an extent that nothing names, and removes it as far as possible. */
    void (*extent_discard)(struct driver_extent *extent);
    void (*extent_close)(struct driver_extent *extent);

    /** Offsets count from the start of the object. */
    struct result (*part_open)(struct driver *driver, const struct uuid *blob, uint32_t part, struct driver_part **part_out,
                               struct error *err);
    /** As part_open, but never waits for a disk or a network. False: call part_open, which opens the part or returns the error.
     *  NULL: never possible. */
    bool (*part_open_cached)(struct driver *driver, const struct uuid *blob, uint32_t part, struct driver_part **part_out);
    uint64_t (*part_size)(const struct driver_part *part);
    struct result (*part_read)(struct driver_part *part, uint64_t offset, uint8_t *into, size_t length, struct error *err);
    /** As part_read, but never waits for a disk or a network. False: call part_read, which reads the bytes or returns the error.
     *  NULL: never possible. */
    bool (*part_read_cached)(struct driver_part *part, uint64_t offset, uint8_t *into, size_t length);
    /** Hint: these bytes are read soon. */
    void (*part_ahead)(struct driver_part *part, uint64_t offset, uint64_t length);
    /** As part_ahead, for bytes that will be sent to a client: the driver may read them without the page cache; until
     *  they are there part_read_cached returns false. Page-aligned is fastest. NULL: as part_ahead. */
    void (*part_pull)(struct driver_part *part, uint64_t offset, uint64_t length);
    /** Hint: these bytes are not read again (keeps a scrub out of the page cache). */
    void (*part_forget)(struct driver_part *part, uint64_t offset, uint64_t length);
    void (*part_close)(struct driver_part *part);

    /** Small objects. put returns when the object is durable; get reads at most the buffer's maximum; removing a missing object
     *  is fine. */
    struct result (*small_put)(struct driver *driver, const struct uuid *blob, const char *name, struct bytes content,
                               struct error *err);
    struct result (*small_get)(struct driver *driver, const struct uuid *blob, const char *name, struct buffer *content,
                               struct error *err);
    struct result (*small_remove)(struct driver *driver, const struct uuid *blob, const char *name, struct error *err);

    /** Removes every object of the blob except the extents in `kept_parts`. Success also if there are none. */
    struct result (*remove)(struct driver *driver, const struct uuid *blob, const uint32_t *kept_parts, size_t kept_count,
                            struct error *err);
    /** Calls `visit` for each object of the region, in no order; its failure ends the listing. A large extent may be
     *  visited in several pieces. */
    struct result (*list)(struct driver *driver, driver_visit *visit, void *context, struct error *err);
    /** Checks that the storage can be used and is where the configuration says. ERROR_INVALID if not: a person must
     *  repair it. For a bucket (bucket_location) all calls are then ERROR_UNAVAILABLE until a check succeeds. NULL:
     *  nothing can go wrong. */
    struct result (*check)(struct driver *driver, struct error *err);
    /** Asks the storage about itself; reads no object but the mark. Asks also while a check fails. ERROR_UNAVAILABLE: it does
     *  not answer, so nothing is known. NULL: there is nothing to ask. */
    struct result (*survey)(struct driver *driver, struct driver_survey *survey_out, struct error *err);
    /** Writes the mark of the region, once and for all. ERROR_CONFLICT if there is one. NULL: there is no place for it. */
    struct result (*mark)(struct driver *driver, const char *mark, struct error *err);
    /** The size of the file system, and the free space for this user. NULL: there is no such bound. */
    struct result (*room)(struct driver *driver, struct driver_room *room_out, struct error *err);
    void (*close)(struct driver *driver);
};

/** The first member of each driver's own struct. */
struct driver {
    const struct driver_operations *operations;
};

/** Reads the content of a mark: 32 hex digits, and a line end. Anything else is the mark "?", which no record names. */
void driver_mark_read(struct bytes content, char mark_out[DRIVER_MARK_SIZE]);

/** Calls the driver's close function. No extent and no part may be open. */
void driver_free(struct driver *driver);
DEFINE_OWNED(driver);

/**
 * A folder of a local file system. Creates `root` (its parent must exist) and the folders "00" .. "ff" in it, mode 0700.
 * Names: docs/formats/sjb1.md, "Files". Extents of at most `cached_max` bytes are written into the page cache and read from
 * it. Longer ones use direct I/O where that works; an extent whose length was not announced uses direct I/O beyond
 * `cached_max` bytes.
 */
RESULT driver_fs_open(const char *root, uint64_t cached_max, struct driver **driver_out, struct error *err);

struct driver_memory_options {
    uint64_t capacity_bytes; /* ERROR_FULL beyond it; 0: no limit */
    unsigned delay_ms;       /* the duration of each operation that would use a disk */
    bool is_flat;            /* stores blobs as an object store does */
};
/** A driver in memory with the same rules. Closing it loses all objects. `options` may be NULL. */
RESULT driver_memory_open(const struct driver_memory_options *options, struct driver **driver_out, struct error *err);
/** Simulates a power cut: bytes without a sync are lost, and so are extents that were never synced. */
void driver_memory_lose_unsynced(struct driver *driver);
/** Changes the size of the simulated disk. */
void driver_memory_set_capacity(struct driver *driver, uint64_t capacity_bytes);
