/*
 * storage/blob_blocks_priv.h -- where a writer seals its records: one block is filled while the driver may still be writing
 * the others.
 *
 * Before the first block lies the header, right before its first record; behind each there is room for a usual trailer. Small
 * blobs need one block only.
 */
#pragma once

#include "storage/blob_priv.h"
#include "storage/driver.h"

enum {
    BLOCK_SIZE = 4 * SJB1_RECORD_SIZE, /* what one append hands to the driver */
    BLOCK_MARGIN = SJB1_HEADER_SIZE,
    BLOCKS = DRIVER_APPENDS_HELD + 1,
};

struct blob_block {
    uint8_t *memory;
    uint8_t *start; /* aligned; the margins lie around it */
    size_t touched; /* bytes that may hold content in plain, to be wiped */
};

struct blob_blocks {
    struct blocks *memory; /* where blocks come from: of BLOB_MEMORY_SIZE */
    struct blob_block list[BLOCKS];
    size_t turn;    /* which of them is filled */
    uint8_t *start; /* its start: sealed records, then the tail in the place where it will be sealed */
    size_t sealed_length, tail_length;
};

/** ERROR_NO_MEMORY. */
RESULT blob_blocks_begin(struct blob_blocks *blocks, struct blocks *memory, const uint8_t header[SJB1_HEADER_SIZE],
                         struct error *err);
/** To the tail, which has room for it. */
void blob_blocks_add(struct blob_blocks *blocks, struct bytes piece);
/** The sealed records were handed to the driver; the tail goes to the next block. ERROR_NO_MEMORY. */
RESULT blob_blocks_next(struct blob_blocks *blocks, struct error *err);
/** Wipes; the driver is done with all. */
void blob_blocks_done(struct blob_blocks *blocks);
