/* detection/event_known_priv.h -- what rules want to know of an event besides its leaf: looked up in the database, and in what is sealed beside the event. */
#pragma once

#include "audit/first_place.h"
#include "detection/detection_store_priv.h"
#include "detection/engine.h"

#define SIZES_KEPT 4096 /* a power of two */

/* Sizes of artifacts that were looked up: a job reads the same ones again and again. Zero-initialised. */
struct known_sizes {
    struct known_size {
        uint64_t key, size_bytes; /* key 0: free */
    } each[SIZES_KEPT];
};
/** Events that read blobs. */
struct wanted_sizes {
    size_t count;
    struct wanted_size {
        const struct leaf *leaf;
        uint64_t size_bytes; /* the answer; 0: not known */
    } each[DETECTION_TOGETHER];
};
/** Fills the sizes in, those that are not kept by one statement for all. `hash_key`: as of engine_new(). */
RESULT known_sizes_of(struct known_sizes *sizes, const uint8_t hash_key[16], struct pg *pg, struct wanted_sizes *wanted,
                      struct error *err) __attribute__((nonnull));
/** Adds whom the facts of one target want told: "dpo,ciso", and "+3" if that many more have no room. Of facts that are missing or damaged "facts-are-missing". */
void known_told_add(enum facts_state state, struct bytes facts, struct event_known *known) __attribute__((nonnull));
/** Whom duties want told, by the facts of the event, which the page has. */
void known_told_of(const struct audit_page *page, size_t index, struct event_known *known) __attribute__((nonnull));
/** The persons behind the actor, in `known`. None if nobody knows, and after an erasure. */
RESULT known_persons_of(const struct first_place_source *source, struct audit_page *page, size_t index, struct event_known *known,
                        struct error *err) __attribute__((nonnull));
