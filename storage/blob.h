/*
 * storage/blob.h -- the sealed blobs of one region. They are written in pieces, resumed after a crash, and verified when
 * they are read.
 *
 * Implements docs/formats/sjb1.md. The one rule: a blob exists when the caller's database row says so. A writer makes bytes
 * durable first and returns the values of the row. The caller commits the row only while it still owns the upload (`UPDATE
 * ... WHERE writer_epoch = $mine`), and calls blob_writer_committed() after that.
 *
 * Keys come from the caller (crypto/keyd_client.h). A writer keeps only keys that are derived from them, a reader keeps a
 * copy in locked memory; both are wiped when they are freed. Nothing here logs; messages name the part that is wrong
 * (header, commitment, trailer, record N, extent N), and no key or content.
 *
 * Errors: those of the driver. In addition ERROR_CORRUPT means that stored bytes do not verify: raise an alarm.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"
#include "base/uuid.h"
#include "crypto/digest.h"
#include "crypto/secret.h"
#include "storage/blob_content.h"
#include "storage/driver.h"

#define BLOB_REGION_MAX       63                      /* characters of a region's id; as in table region */
#define BLOB_RECORD_PLAIN     65520                   /* bytes of content in each record but the last */
#define BLOB_CHECKPOINT_EVERY (64u << 20)             /* bytes after which a checkpoint is due */
#define BLOB_READ_SIZE        (4 * BLOB_RECORD_PLAIN) /* 262,080: the best length for blob_reader_read() */

/** The blobs of one region. Thread-safe. */
struct blob_store;

/** A source of random bytes. Only the tests of the format's vectors use another one than the kernel. */
struct blob_random {
    void (*fill)(void *context, uint8_t *out, size_t length);
    void *context;
};

/** The store owns the driver after success. `region` is its full id ("azure/uaenorth"); `random` is NULL in production. */
RESULT blob_store_new(struct driver *driver, const char *region, const struct blob_random *random, struct blob_store **store_out,
                      struct error *err);
/** Call it only when no writer and no reader of the store is open. */
void blob_store_free(struct blob_store *store);
DEFINE_OWNED(blob_store);

/** The values that a blob's keys depend on: an object under another identity does not open. */
struct blob_identity {
    struct uuid blob, project;
    char region[BLOB_REGION_MAX + 1];
};

/** The identity of a new blob in this store's region, with a random id. Stores nothing. */
struct blob_identity blob_identity_new(struct blob_store *store, const struct uuid *project);
/** The commitment binds header and data key; the data key is wrapped together with it. Stores nothing. */
RESULT blob_commitment(const struct blob_identity *identity, const struct secret *data_key, uint8_t commitment_out[32],
                       struct error *err);

/* ---- Writing ---- */

/** An upload session: the values of its row. */
struct blob_upload {
    struct uuid upload;
    struct blob_identity identity;
    uint64_t writer_epoch; /* of this writer: the caller raises the row's number before it opens the writer */
    bool with_sha512;      /* the client will close with a sha512 digest; SHA-256 is always computed */
};

/** The durable state of an upload: the values of its row. Sequence 0: nothing was acknowledged yet. */
struct blob_checkpoint {
    uint64_t offset;             /* bytes of content that are durable */
    uint64_t sequence;           /* 1, 2, ... */
    uint64_t writer_epoch;       /* of the writer that made the checkpoint */
    uint8_t digest[SHA256_SIZE]; /* of the stored checkpoint, so an older one can't be replayed */
};

/** For one thread at a time. Holds 320 KiB of memory, and 640 KiB more once it has taken 256 KiB of content. */
struct blob_writer;

/**
 * Opens a writer at the offset of `from`; NULL or sequence 0 means the start. Bytes that an earlier writer stored beyond
 * that offset are never used. ERROR_CORRUPT if the checkpoint does not verify, ERROR_NOT_FOUND if it is gone (then the
 * upload can't be resumed), ERROR_INVALID if the identity is of another region.
 */
RESULT blob_writer_open(struct blob_store *store, const struct blob_upload *upload, const struct secret *data_key,
                        const struct blob_checkpoint *from, struct blob_writer **writer_out, struct error *err);
/** The client announced `length` further bytes, probably its last ones. The writer then reserves no more space than these bytes
 *  need. Fewer or more bytes may come. */
void blob_writer_expect(struct blob_writer *writer, uint64_t length);
/**
 * Hashes and seals. After a failure the writer is unusable: free it and open another from the last committed checkpoint.
 * ERROR_LIMIT beyond 65,536 extents.
 */
RESULT blob_writer_write(struct blob_writer *writer, struct bytes content, struct error *err);
/** Bytes of content taken so far, including those before the checkpoint. */
uint64_t blob_writer_offset(const struct blob_writer *writer);
/** True if 64 MiB came since the last checkpoint: make and commit a checkpoint before the next write. */
bool blob_writer_is_checkpoint_due(const struct blob_writer *writer);
/**
 * Makes all content so far durable. Call it at the end of a PATCH, after the connection broke, and when a checkpoint is due.
 * Commit the returned values, then call blob_writer_committed() and continue with this writer. If the commit fails or its
 * outcome is unknown, free the writer and read the row again.
 */
RESULT blob_writer_checkpoint(struct blob_writer *writer, struct blob_checkpoint *checkpoint_out, struct error *err);

/**
 * Compares the digest with `expected`, then seals the last record and the trailer, and makes the blob durable. ERROR_INVALID
 * if the digest differs, or if `expected` is a sha512 digest and the upload was opened without SHA-512. Then nothing was
 * stored, and the writer can be used as before. After any other failure the writer is unusable.
 */
RESULT blob_writer_close(struct blob_writer *writer, const struct digest *expected, struct blob_content *content_out,
                         struct error *err);
/** The digests of all content so far: SHA-256, and SHA-512 if asked for. Returns their number. */
size_t blob_writer_digests(const struct blob_writer *writer, struct digest digests_out[2]);
/** The row with the last checkpoint, or with the closed blob, is committed: removes older checkpoints. */
void blob_writer_committed(struct blob_writer *writer);
/** Frees the writer. Removes its extent if no checkpoint and no trailer names it. */
void blob_writer_free(struct blob_writer *writer);
DEFINE_OWNED(blob_writer);

/* ---- Reading ---- */

/** For one thread at a time. Holds about 330 KiB. */
struct blob_reader;

/**
 * Opens a blob and checks header, commitment, footer, trailer and every extent's header and length against the row's
 * values. ERROR_CORRUPT names the part that differs, ERROR_NOT_FOUND the file that is missing.
 */
RESULT blob_reader_open(struct blob_store *store, const struct blob_identity *identity, const struct blob_content *content,
                        const struct secret *data_key, struct blob_reader **reader_out, struct error *err);
/** As blob_reader_open(), for a blob that did not verify: reads each byte from the disk or the store again, not from memory.
 *  Slow. */
RESULT blob_reader_open_again(struct blob_store *store, const struct blob_identity *identity, const struct blob_content *content,
                              const struct secret *data_key, struct blob_reader **reader_out, struct error *err);
/** As blob_reader_open(), but never waits. False: blob_reader_open() would have to wait, or would fail. */
bool blob_reader_open_cached(struct blob_store *store, const struct blob_identity *identity, const struct blob_content *content,
                             const struct secret *data_key, struct blob_reader **reader_out);
uint64_t blob_reader_length(const struct blob_reader *reader);
/**
 * Reads exactly `length` bytes from `offset`. Whole records are verified before any of their bytes is returned; on failure
 * the buffer holds zeros. ERROR_INVALID beyond the end. All offsets cost the same.
 */
RESULT blob_reader_read(struct blob_reader *reader, uint64_t offset, uint8_t *into, size_t length, struct error *err);
/**
 * As blob_reader_read(), but never waits, for threads that must not block. True: all bytes were in memory and verified.
 * False: some bytes were not in memory, or are damaged. The buffer then holds no content, and blob_reader_read() returns the
 * bytes or the error.
 */
bool blob_reader_read_cached(struct blob_reader *reader, uint64_t offset, uint8_t *into, size_t length);
void blob_reader_free(struct blob_reader *reader);
DEFINE_OWNED(blob_reader);

/** How a stored blob is checked. All fields may be zero. */
struct blob_verify_options {
    bool with_digest;    /* also hash the content and compare */
    uint64_t from_bytes; /* earlier bytes were checked before; with a digest everything is read anyhow */
    /* Called after each 1 MiB or less; it may wait, to limit the rate. False ends the check: ERROR_UNAVAILABLE. */
    bool (*progress)(void *context, uint64_t done_bytes, uint64_t length_bytes);
    void *context;
};
/** Reads everything and verifies every tag. Does not change the page cache: bytes that were in it stay, and no
 *  others are added. */
RESULT blob_verify(struct blob_reader *reader, const struct blob_verify_options *options, struct error *err);

/* ---- Removing ---- */

/** Removes every object of the blob. Success also if there are none, so it may be repeated. */
RESULT blob_remove(struct blob_store *store, const struct uuid *blob, struct error *err);
/** Whether this object of the blob is an extent that the blob's trailer names. Other objects are leftovers of crashed
 *  writers, or foreign objects. */
bool blob_reader_names(const struct blob_reader *reader, const struct driver_entry *entry);
/** Whether an object of a listing still exists: for a caller that found no row of the object and must be sure. */
RESULT blob_has(struct blob_store *store, const struct driver_entry *entry, bool *has_out, struct error *err);
/** Asks the driver whether the region's bytes are where the configuration says. If not, the region is refused until a
 *  later check succeeds. */
RESULT blob_store_check(struct blob_store *store, struct error *err);
/** A closed store reads and writes no content any more, also for readers and writers that are open: they fail with ERROR_UNAVAILABLE. */
void blob_store_close(struct blob_store *store, bool is_closed);
bool blob_store_is_closed(const struct blob_store *store);
/** What the storage says about itself (storage/driver.h). ERROR_NOT_FOUND: there is nothing to ask. */
RESULT blob_store_survey(struct blob_store *store, struct driver_survey *survey_out, struct error *err);
/** Writes the mark of the region. ERROR_CONFLICT if there is one, ERROR_NOT_FOUND if there is no place for it. */
RESULT blob_store_mark(struct blob_store *store, const char *mark, struct error *err);
/** The size and free space of the store's file system. ERROR_NOT_FOUND for a bucket, which has no such bound. */
RESULT blob_store_room(struct blob_store *store, struct driver_room *room_out, struct error *err);
/** Calls `visit` for each object of the region, in no order. A failure of `visit` ends the listing and is returned. */
RESULT blob_list(struct blob_store *store, driver_visit *visit, void *context, struct error *err);
