#include "gateway/http/transfer.h"

#include <assert.h>

void ring_begin(struct ring *ring, struct blocks *blocks, unsigned slots, size_t slot_size)
{
    assert(slots <= RING_SLOTS_MAX);
    ring_done(ring);
    *ring = (struct ring){.blocks = blocks, .slot_size = slot_size, .slots = slots};
}

void ring_done(struct ring *ring)
{
    for (unsigned i = 0; i < ring->slots; i++) {
        blocks_give(ring->blocks, ring->data[i]);
        ring->data[i] = NULL;
    }
    ring->slots = 0;
}

bool ring_is_full(const struct ring *ring)
{
    return ring->count == ring->slots;
}

static unsigned next_slot(const struct ring *ring)
{
    return (ring->head + ring->count) % ring->slots;
}

uint8_t *ring_room(struct ring *ring, size_t *room_out)
{
    if (ring_is_full(ring)) return NULL;
    const unsigned slot = next_slot(ring);
    if (ring->data[slot] == NULL) ring->data[slot] = blocks_take(ring->blocks);
    *room_out = ring->slot_size - ring->filled[slot];
    return ring->data[slot] == NULL ? NULL : ring->data[slot] + ring->filled[slot];
}

bool ring_fill(struct ring *ring, size_t size)
{
    const unsigned slot = next_slot(ring);

    ring->filled[slot] += size;
    if (ring->filled[slot] < ring->slot_size) return false;
    ring->count++;
    return true;
}

void ring_close_slot(struct ring *ring)
{
    if (!ring_is_full(ring) && ring->filled[next_slot(ring)] > 0) ring->count++;
}

struct bytes ring_first(const struct ring *ring)
{
    if (ring->count == 0) return (struct bytes){0};
    return (struct bytes){ring->data[ring->head] + ring->used, ring->filled[ring->head] - ring->used};
}

void ring_empty(struct ring *ring, size_t size)
{
    assert(ring->count > 0);
    ring->used += size;
    if (ring->used < ring->filled[ring->head]) return;
    ring->used = 0;
    blocks_give(ring->blocks, ring->data[ring->head]); /* the next user of the block finds it in the cache */
    ring->data[ring->head] = NULL;
    ring->filled[ring->head] = 0;
    ring->head = (ring->head + 1) % ring->slots;
    ring->count--;
}
