/*
 * storage/blob_blocks_priv.h -- the blocks in which a writer seals its records. One block is filled while the driver may
 * still be writing the others.
 *
 * The first block has room for the header right before its first record; each block has room for a usual trailer after its
 * records. A small blob needs one block only.
 */
#pragma once

#include "storage/blob_priv.h"
#include "storage/driver.h"

enum {
    BLOCK_SIZE = 4 * SJB1_RECORD_SIZE, /* bytes of one append to the driver */
    BLOCK_MARGIN = SJB1_HEADER_SIZE,
    BLOCKS = DRIVER_APPENDS_HELD + 1,
};

struct blob_block {
    uint8_t *memory;
    uint8_t *start; /* aligned; there is a margin before and after it */
    size_t touched; /* bytes that may hold plaintext, and must be wiped */
};

struct blob_blocks {
    struct blocks *memory; /* the pool of blocks of BLOB_MEMORY_SIZE */
    struct blob_block list[BLOCKS];
    size_t current; /* the block that is being filled */
    uint8_t *start; /* of the current block: sealed records, then the tail at the position where it will be sealed */
    size_t sealed_length, tail_length;
};

/** ERROR_NO_MEMORY. */
RESULT blob_blocks_begin(struct blob_blocks *blocks, struct blocks *memory, const uint8_t header[SJB1_HEADER_SIZE],
                         struct error *err);
/** Appends to the tail, which has room for the piece. */
void blob_blocks_add(struct blob_blocks *blocks, struct bytes piece);
/** For sealed records that were handed to the driver: moves the tail to the next block. ERROR_NO_MEMORY. */
RESULT blob_blocks_next(struct blob_blocks *blocks, struct error *err);
/** Wipes the blocks. The driver must have finished with all of them. */
void blob_blocks_done(struct blob_blocks *blocks);
