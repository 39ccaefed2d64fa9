/*
 * storage/blob_reader_priv.h -- what reading and checking a blob share.
 */
#pragma once

#include "storage/blob_priv.h"

enum {
    BATCH_RECORDS = 4, /* 256 KiB: read in one go and decrypted one after the other */
    SEALED_SIZE = BATCH_RECORDS * SJB1_RECORD_SIZE
};
_Static_assert(SJB1_RECORD_SIZE + SEALED_SIZE <= BLOB_MEMORY_SIZE, "plain and sealed have their place");
#define NO_RECORD UINT64_MAX

struct blob_reader {
    struct blob_store *store;
    struct blob_identity identity;
    struct blob_content content;
    struct sjb1_context format;
    struct secret *data_key; /* every extent has a key of its own, derived when it is reached */
    struct sjb1_trailer trailer;

    size_t current; /* the extent that is open */
    struct driver_part *part;
    struct gcm *gcm;
    uint64_t ahead_until; /* in the part: as far as read-ahead was asked for */

    bool is_again;   /* what is read comes from the disk or the store itself, not from memory */
    bool is_at_once; /* this read may not wait */
    bool is_check;   /* who asks for what is read soon is the check itself */
    uint64_t cached; /* the record in `plain`, or NO_RECORD */
    uint8_t *plain;  /* owned: one record, then `sealed` */
    uint8_t *sealed; /* a batch as it is stored */
    size_t touched;  /* bytes of `plain` that ever held content, to be wiped */
};

/** The first record after extent `index`. */
uint64_t blob_reader_extent_end(const struct blob_reader *reader, size_t index);
/** Bytes of a record as it is stored. */
size_t blob_reader_sealed_length(const struct blob_reader *reader, uint64_t record);
/** Where a record starts in the object that holds extent `index`. */
uint64_t blob_reader_record_at(const struct blob_reader *reader, size_t index, uint64_t record);
/** Opens the extent's object and derives its key. */
RESULT blob_reader_go_to(struct blob_reader *reader, size_t index, struct error *err);
/** Reads `count` neighbouring records of the open extent into `sealed`. */
RESULT blob_reader_fetch(struct blob_reader *reader, uint64_t record, size_t count, struct error *err);
/** Verifies and opens one of them. */
RESULT blob_reader_decrypt(struct blob_reader *reader, uint64_t record, const uint8_t *sealed, uint8_t *into,
                           struct error *err);
