/* detection/event_known_priv.h -- what rules want to know of an event besides its leaf: looked up in the database, and in what is sealed beside the event. */
#pragma once

#include "audit/first_place.h"
#include "detection/engine.h"

#define SIZES_KEPT 4096 /* a power of two */

/* Sizes of artifacts that were looked up: a job reads the same ones again and again. Zero-initialised. */
struct known_sizes {
    struct known_size {
        uint64_t key, size_bytes; /* key 0: free */
    } each[SIZES_KEPT];
};
/** The size of the blob that the event reads; 0: not known. `hash_key`: as of engine_new(). */
RESULT known_size_of(struct known_sizes *sizes, const uint8_t hash_key[16], struct pg *pg, const struct leaf *leaf,
                     uint64_t *size_bytes_out, struct error *err) __attribute__((nonnull));
/** The persons behind the actor, in `known`. None if nobody knows, and after an erasure. */
RESULT known_persons_of(const struct first_place_source *source, struct audit_page *page, size_t index, struct event_known *known,
                        struct error *err) __attribute__((nonnull));
