/*
 * storage/blob_reader_priv.h -- shared by reading and checking a blob.
 */
#pragma once

#include "storage/blob_priv.h"

enum {
    BATCH_RECORDS = 4, /* 256 KiB: read in one call and decrypted one after the other */
    SEALED_SIZE = BATCH_RECORDS * SJB1_RECORD_SIZE
};
_Static_assert(SJB1_RECORD_SIZE + SEALED_SIZE <= BLOB_MEMORY_SIZE, "plain and sealed fit");
#define NO_RECORD UINT64_MAX

struct blob_reader {
    struct blob_store *store;
    struct blob_identity identity;
    struct blob_content content;
    struct sjb1_context format;
    struct secret *data_key; /* every extent has a key of its own, derived when it is opened */
    struct sjb1_trailer trailer;

    size_t current; /* the extent that is open */
    struct driver_part *part;
    struct gcm *gcm;
    uint64_t ahead_until; /* offset in the part up to which read-ahead was requested */

    bool is_again;       /* read from the disk or the store itself, not from memory */
    bool is_cached_only; /* this read may not wait */
    bool is_check;       /* the reads are of a check, not of a client */
    uint64_t cached;     /* the record in `plain`, or NO_RECORD */
    uint8_t *plain;      /* owned: one record, then `sealed` */
    uint8_t *sealed;     /* a batch of stored records */
    size_t touched;      /* bytes of `plain` that may hold content, and must be wiped */
};

/** The first record after extent `index`. */
uint64_t blob_reader_extent_end(const struct blob_reader *reader, size_t index);
/** The stored length of a record. */
size_t blob_reader_sealed_length(const struct blob_reader *reader, uint64_t record);
/** The offset of a record in the object that holds extent `index`. */
uint64_t blob_reader_record_at(const struct blob_reader *reader, size_t index, uint64_t record);
/** Opens the extent's object and derives its key. */
RESULT blob_reader_go_to(struct blob_reader *reader, size_t index, struct error *err);
/** Reads `count` consecutive records of the open extent into `sealed`. */
RESULT blob_reader_fetch(struct blob_reader *reader, uint64_t record, size_t count, struct error *err);
/** Verifies and decrypts one of them. */
RESULT blob_reader_decrypt(struct blob_reader *reader, uint64_t record, const uint8_t *sealed, uint8_t *into, struct error *err);
