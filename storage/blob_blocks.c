#include "storage/blob_blocks_priv.h"

#include <string.h>

#include "crypto/secret.h"

enum { BLOCK_ALIGNMENT = 4096 };
_Static_assert(BLOCK_ALIGNMENT + BLOCK_MARGIN + BLOCK_SIZE + BLOCK_MARGIN <= BLOB_MEMORY_SIZE, "a block fits");

static struct result make_block(struct blob_blocks *blocks, struct blob_block *block, struct error *err)
{
    block->memory = blocks_take(blocks->memory);
    if (block->memory == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an upload");
    const uintptr_t misfit = (uintptr_t)block->memory % BLOCK_ALIGNMENT;
    block->start = block->memory + (BLOCK_ALIGNMENT - misfit) + BLOCK_MARGIN;
    return SUCCESS;
}

struct result blob_blocks_begin(struct blob_blocks *blocks, struct blocks *memory, const uint8_t header[SJB1_HEADER_SIZE],
                                struct error *err)
{
    blocks->memory = memory;
    TRY(make_block(blocks, &blocks->list[0], err));
    blocks->start = blocks->list[0].start;
    memcpy(blocks->start - BLOCK_MARGIN, header, SJB1_HEADER_SIZE);
    return SUCCESS;
}

void blob_blocks_add(struct blob_blocks *blocks, struct bytes piece)
{
    struct blob_block *block = &blocks->list[blocks->current];
    const size_t at = blocks->sealed_length + blocks->tail_length;

    memcpy(blocks->start + at, piece.data, piece.length);
    blocks->tail_length += piece.length;
    if (at + piece.length > block->touched) block->touched = at + piece.length;
}

struct result blob_blocks_next(struct blob_blocks *blocks, struct error *err)
{
    const struct bytes tail = {blocks->start + blocks->sealed_length, blocks->tail_length};
    const size_t current = (blocks->current + 1) % BLOCKS;

    if (blocks->list[current].memory == NULL) TRY(make_block(blocks, &blocks->list[current], err));
    blocks->current = current;
    blocks->start = blocks->list[current].start;
    blocks->sealed_length = blocks->tail_length = 0;
    blob_blocks_add(blocks, tail);
    return SUCCESS;
}

void blob_blocks_done(struct blob_blocks *blocks)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        if (blocks->list[i].memory != NULL) secret_wipe(blocks->list[i].start, blocks->list[i].touched);
        blocks_give(blocks->memory, blocks->list[i].memory);
    }
}
