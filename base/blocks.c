#include "base/blocks.h"

#include <pthread.h>

#include "base/memory.h"

struct blocks {
    pthread_mutex_t mutex;
    size_t size;
    unsigned count;
    uint8_t *kept[BLOCKS_KEPT];
};

struct result blocks_new(size_t size, struct blocks **blocks_out, struct error *err)
{
    struct blocks *blocks = memory_zeroed(1, sizeof *blocks);

    if (blocks == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for blocks");
    blocks->size = size;
    pthread_mutex_init(&blocks->mutex, NULL);
    *blocks_out = blocks;
    return SUCCESS;
}

uint8_t *blocks_take(struct blocks *blocks)
{
    uint8_t *block = NULL;

    pthread_mutex_lock(&blocks->mutex);
    if (blocks->count > 0) block = blocks->kept[--blocks->count];
    pthread_mutex_unlock(&blocks->mutex);
    return block != NULL ? block : memory_resize(NULL, blocks->size);
}

void blocks_give(struct blocks *blocks, uint8_t *block)
{
    if (block == NULL) return;
    pthread_mutex_lock(&blocks->mutex);
    const bool is_kept = blocks->count < BLOCKS_KEPT;
    if (is_kept) blocks->kept[blocks->count++] = block;
    pthread_mutex_unlock(&blocks->mutex);
    if (!is_kept) free(block);
}

void blocks_free(struct blocks *blocks)
{
    if (blocks == NULL) return;
    while (blocks->count > 0) free(blocks->kept[--blocks->count]);
    pthread_mutex_destroy(&blocks->mutex);
    free(blocks);
}
