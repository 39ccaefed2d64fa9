/*
 * gateway/http/transfer.h -- the ring through which a body moves between a connection and a worker, in either direction.
 *
 * In: the event thread fills slots, and one receiver at a time empties them. Out: one sender at a time fills slots, and the event thread
 * empties them. The mutex of the exchange protects the ring. Two slots belong to the thread that works on them, also without the mutex:
 * the one that is being filled, and the first full one while it is written.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/blocks.h"
#include "base/bytes.h"

#define RING_SLOTS_MAX 8 /* for a body that arrives: while a receiver waits for its disk, the client can send a MiB more */

struct ring {
    struct blocks *blocks;
    size_t slot_size;
    unsigned slots;                /* limit of slots */
    uint8_t *data[RING_SLOTS_MAX]; /* taken when the slot is filled, given back when it is empty */
    size_t filled[RING_SLOTS_MAX];
    unsigned head, count; /* of full slots; the slot behind them is being filled */
    size_t used;          /* bytes of the first full slot that are done */
};

/** Empties the ring and gives back its memory. */
void ring_begin(struct ring *ring, struct blocks *blocks, unsigned slots, size_t slot_size);
/** Gives back all memory. Also of a zeroed ring. */
void ring_done(struct ring *ring);
bool ring_is_full(const struct ring *ring);
/** The free part of the slot that is being filled, and its size. NULL: the ring is full, or out of memory. */
uint8_t *ring_room(struct ring *ring, size_t *room_out);
/** `size` bytes were written into that part. True: the slot is full now. */
bool ring_fill(struct ring *ring, size_t size);
/** Ends the slot that is being filled, if it holds anything: it counts as full. */
void ring_close_slot(struct ring *ring);
/** The unused rest of the first full slot; empty if there is no full slot. */
struct bytes ring_first(const struct ring *ring);
/** `size` bytes of that rest are done. */
void ring_empty(struct ring *ring, size_t size);

struct transfer {
    struct ring ring;
    bool is_busy;       /* a job is queued or runs on it */
    bool is_waited_for; /* the event thread suspended, because the ring was full (in) or empty (out) */
    bool has_ended;     /* in: the client has sent everything */
    bool has_failed;
    uint64_t read_bytes;   /* out: read from the source so far */
    uint64_t sender_until; /* out: the source could not be read at once, so a sender reads up to here */
};
