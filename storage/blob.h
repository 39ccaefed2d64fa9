/*
 * storage/blob.h -- sealed blobs of one region: written in pieces, resumed after a crash, read with proof.
 *
 * Implements docs/formats/sjb1.md. The one rule: a blob exists when the caller's database row says so. A writer
 * makes bytes durable first and returns what the row must hold; the caller commits the row only while it still owns
 * the upload (`UPDATE ... WHERE writer_epoch = $mine`), and calls blob_writer_committed() after that.
 *
 * Keys come from the caller (crypto/keyd_client.h). A writer keeps only what is derived from them, a reader keeps a
 * copy in locked memory; both are wiped when they are freed. Nothing here logs; messages name what is wrong (header,
 * commitment, trailer, record N, extent N) and no key or content.
 *
 * Errors beside those of the driver: ERROR_CORRUPT means that stored bytes do not verify: raise an alarm.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"
#include "base/uuid.h"
#include "crypto/digest.h"
#include "crypto/secret.h"
#include "storage/driver.h"

#define BLOB_REGION_MAX       63       /* characters of a region's id; as in table region */
#define BLOB_RECORD_PLAIN     65520    /* bytes of content in each record but the last */
#define BLOB_CHECKPOINT_EVERY (64u << 20) /* bytes after which a checkpoint is due */
#define BLOB_READ_SIZE        (4 * BLOB_RECORD_PLAIN) /* 262,080: what blob_reader_read() does best with */

/** One region's blobs. For any number of threads. */
struct blob_store;

/** Where random bytes come from; only the tests of the format's vectors have another source than the kernel. */
struct blob_random {
    void (*fill)(void *context, uint8_t *out, size_t length);
    void *context;
};

/** Takes the driver over on success. `region` is its full id ("azure/uaenorth"); `random` is NULL in production. */
RESULT blob_store_new(struct driver *driver, const char *region, const struct blob_random *random,
                      struct blob_store **store_out, struct error *err);
/** Nothing of it may be open. */
void blob_store_free(struct blob_store *store);
DEFINE_OWNED(blob_store);
const char *blob_store_region(const struct blob_store *store);

/** What a blob's keys depend on: an object under another identity does not open. */
struct blob_identity {
    struct uuid blob, project;
    char region[BLOB_REGION_MAX + 1];
};

/** A new blob in this store's region, with a random id. Stores nothing. */
struct blob_identity blob_identity_new(struct blob_store *store, const struct uuid *project);
/** Binds header and data key; the key is wrapped together with it. Stores nothing. */
RESULT blob_commitment(const struct blob_identity *identity, const struct secret *data_key,
                       uint8_t commitment_out[32], struct error *err);

/* ---- Writing ---- */

/** One upload session: the values of its row. */
struct blob_upload {
    struct uuid upload;
    struct blob_identity identity;
    uint64_t writer_epoch; /* that this writer claimed: raised in the row before the writer is opened */
    bool with_sha512;      /* the client will close with a sha512 digest; SHA-256 is always computed */
};

/** The durable state of an upload: the values of its row. Sequence 0: nothing was acknowledged yet. */
struct blob_checkpoint {
    uint64_t offset;       /* bytes of content that are safe */
    uint64_t sequence;     /* 1, 2, ... */
    uint64_t writer_epoch; /* of the writer that made it */
    uint8_t digest[SHA256_SIZE]; /* of the stored checkpoint: an older one can't be played back */
};

/** For one thread at a time; holds 320 KiB, and 640 more from 256 KiB of content on. */
struct blob_writer;

/**
 * Opens a writer at the offset of `from`: NULL or sequence 0 for the start. Whatever an earlier writer had beyond
 * it is ignored for ever. ERROR_CORRUPT when the checkpoint does not verify, ERROR_NOT_FOUND when it is gone (then
 * the upload can't be resumed), ERROR_INVALID when the identity is of another region.
 */
RESULT blob_writer_open(struct blob_store *store, const struct blob_upload *upload, const struct secret *data_key,
                        const struct blob_checkpoint *from, struct blob_writer **writer_out, struct error *err);
/** So many bytes are announced, and probably all that still comes: no more room than they need is reserved. More or less may come. */
void blob_writer_expect(struct blob_writer *writer, uint64_t length);
/**
 * Hashes and seals. After a failure the writer is dead: free it and open another from the last committed checkpoint.
 * ERROR_LIMIT past 65,536 extents.
 */
RESULT blob_writer_write(struct blob_writer *writer, struct bytes content, struct error *err);
/** Bytes of content taken so far, those before the checkpoint included. */
uint64_t blob_writer_offset(const struct blob_writer *writer);
/** 64 MiB since the last checkpoint: make and commit one before the next write. */
bool blob_writer_is_checkpoint_due(const struct blob_writer *writer);
/**
 * Makes all content so far durable: at the end of a PATCH, on a cut connection, and when due. Commit what it
 * returns, then call blob_writer_committed() and go on with this writer. If the commit fails or its outcome is not
 * known, free the writer and read the row again.
 */
RESULT blob_writer_checkpoint(struct blob_writer *writer, struct blob_checkpoint *checkpoint_out,
                              struct error *err);

/** What a closed blob's row holds. */
struct blob_content {
    uint64_t length;      /* bytes of content */
    uint32_t part;        /* the extent that closes the blob; a reader starts there */
    struct digest digest; /* the one that was expected */
};

/**
 * Compares the digest, then seals the last record and the trailer and makes the blob durable. ERROR_INVALID for
 * another digest than `expected`, or a sha512 one that the upload was not opened with: then nothing was stored and
 * the writer goes on as if it had not been called. After any other failure it is dead.
 */
RESULT blob_writer_close(struct blob_writer *writer, const struct digest *expected, struct blob_content *content_out,
                         struct error *err);
/** Every digest that is computed, of all content so far: SHA-256, and SHA-512 if asked for. Returns how many. */
size_t blob_writer_digests(const struct blob_writer *writer, struct digest digests_out[2]);
/** The row with the last checkpoint, or with the closed blob, is committed: removes the checkpoints before it. */
void blob_writer_committed(struct blob_writer *writer);
/** Removes all that this upload stored, when the row is gone or will go. The writer is dead. */
RESULT blob_writer_abandon(struct blob_writer *writer, struct error *err);
/** Forgets; an extent that no checkpoint and no trailer of it names is removed. */
void blob_writer_free(struct blob_writer *writer);
DEFINE_OWNED(blob_writer);

/* ---- Reading ---- */

/** For one thread at a time; holds about 330 KiB. */
struct blob_reader;

/**
 * Opens a blob and checks header, commitment, footer, trailer and every extent's header and length against the
 * row's values. ERROR_CORRUPT names what does not fit, ERROR_NOT_FOUND which file is gone.
 */
RESULT blob_reader_open(struct blob_store *store, const struct blob_identity *identity,
                        const struct blob_content *content, const struct secret *data_key,
                        struct blob_reader **reader_out, struct error *err);
/** The same after what was read did not verify: each byte comes from the disk or the store, whatever memory has of it. Slow. */
RESULT blob_reader_open_again(struct blob_store *store, const struct blob_identity *identity,
                              const struct blob_content *content, const struct secret *data_key,
                              struct blob_reader **reader_out, struct error *err);
/** As blob_reader_open() if that needs no waiting; false: it does, or it fails. */
bool blob_reader_open_at_once(struct blob_store *store, const struct blob_identity *identity, const struct blob_content *content,
                              const struct secret *data_key, struct blob_reader **reader_out);
uint64_t blob_reader_length(const struct blob_reader *reader);
/**
 * Exactly `length` bytes from `offset`. Whole records are verified before a byte of them is given: on failure the
 * buffer holds zeros. ERROR_INVALID beyond the end. Any offset costs the same.
 */
RESULT blob_reader_read(struct blob_reader *reader, uint64_t offset, uint8_t *into, size_t length,
                        struct error *err);
/**
 * The same without waiting, for threads that must not block: true if all was in memory and verified. false: it was
 * not, or is damaged; the buffer holds nothing then, and blob_reader_read() brings the bytes or the reason.
 */
bool blob_reader_read_at_once(struct blob_reader *reader, uint64_t offset, uint8_t *into, size_t length);
void blob_reader_free(struct blob_reader *reader);
DEFINE_OWNED(blob_reader);

/** How a blob is checked at rest. All may be zero. */
struct blob_verify_options {
    bool with_digest;    /* also hash the content and compare */
    uint64_t from_bytes; /* what lies before was checked earlier; with a digest everything is read anyhow */
    /* After each 1 MiB or less; may wait, to bound the rate. false ends the check: ERROR_UNAVAILABLE. */
    bool (*progress)(void *context, uint64_t done_bytes, uint64_t length_bytes);
    void *context;
};
/** Reads everything and verifies every tag. Leaves the page cache as it was: what others read stays in it, the rest stays out. */
RESULT blob_verify(struct blob_reader *reader, const struct blob_verify_options *options, struct error *err);

/* ---- Sweeping ---- */

/** Removes every object of the blob. Nothing being there is a success, so it may be repeated. */
RESULT blob_remove(struct blob_store *store, const struct uuid *blob, struct error *err);
/** Removes what crashed writers left beside a closed blob: checkpoints, and extents that its trailer does not name. */
RESULT blob_reader_tidy(struct blob_reader *reader, struct error *err);
/** Is the object, one of this blob, an extent that its trailer names? All others are what crashed writers left, or strangers. */
bool blob_reader_names(const struct blob_reader *reader, const struct driver_entry *entry);
/** Is the object that a listing showed still there? For whoever found no row of it and wants to be sure. */
RESULT blob_has(struct blob_store *store, const struct driver_entry *entry, bool *has_out, struct error *err);
/** Asks the driver whether the region's bytes are where the configuration says; refused until a later check says so. */
RESULT blob_store_check(struct blob_store *store, struct error *err);
/** The room of its file system; ERROR_NOT_FOUND where there is no such bound: a bucket. */
RESULT blob_store_room(struct blob_store *store, struct driver_room *room_out, struct error *err);
/** Calls `visit` for each object of the region, in no order; its failure ends the listing and is returned. */
RESULT blob_list(struct blob_store *store, driver_visit *visit, void *context, struct error *err);
