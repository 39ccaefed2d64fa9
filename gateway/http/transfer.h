/*
 * gateway/http/transfer.h -- a body on its way between a connection and a worker: one ring for both directions.
 *
 * In: the event thread fills slots, one mover at a time empties them. Out: one sender at a time fills slots, the event thread empties
 * them. Under the mutex of the exchange; the slot that is being filled, and the first full one while it is written, belong to whoever
 * works on them, also without the mutex.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/blocks.h"
#include "base/bytes.h"

#define RING_SLOTS_MAX 8 /* of a body that comes in: a mover that waits for its disk leaves the client a MiB */

struct ring {
    struct blocks *blocks;
    size_t slot_size;
    unsigned slots;                  /* that it may have */
    uint8_t *data[RING_SLOTS_MAX];   /* taken when filled, given back when emptied */
    size_t filled[RING_SLOTS_MAX];
    unsigned head, count;            /* full slots; the one behind them is being filled */
    size_t used;                     /* of the first full slot */
};

/** A ring that is empty. What it had is given back. */
void ring_begin(struct ring *ring, struct blocks *blocks, unsigned slots, size_t slot_size);
/** Gives back all memory. Also of a zeroed ring. */
void ring_done(struct ring *ring);
bool ring_is_full(const struct ring *ring);
/** Where the slot that is being filled goes on, and how much room it has. NULL: the ring is full, or memory is out. */
uint8_t *ring_room(struct ring *ring, size_t *room_out);
/** So many bytes were put there; a slot without room left is full. True: a slot became full. */
bool ring_fill(struct ring *ring, size_t size);
/** What the slot that is being filled has, if anything, is a full slot from now on. */
void ring_close_slot(struct ring *ring);
/** What is left of the first full slot; empty when there is none. */
struct bytes ring_first(const struct ring *ring);
/** So many bytes of it are done with. */
void ring_empty(struct ring *ring, size_t size);

struct transfer {
    struct ring ring;
    bool is_busy;          /* a job is queued or runs on it */
    bool is_waited_for;    /* the event thread suspended, because the ring was full (in) or empty (out) */
    bool has_ended;        /* in: the client has sent all */
    bool has_failed;
    uint64_t read_bytes;   /* out: of the source, so far */
    uint64_t sender_until; /* out: what lies before this could not be read at once, and a sender reads it */
};
