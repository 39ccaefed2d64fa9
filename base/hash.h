/*
 * base/hash.h -- spreads names over the buckets of a cache (FNV-1a, 64 bits).
 *
 * It is not a digest and has no key: a client that chooses names can make them collide. So a cache that uses it limits the
 * cost of one bucket's chain.
 */
#pragma once

#include <stdint.h>

#define HASH_BEGIN 14695981039346656037U

/** Adds `text` with its final zero to `hash`, so that "a", "bc" and "ab", "c" differ. */
static inline uint64_t hash_add(uint64_t hash, const char *text)
{
    do hash = (hash ^ (uint8_t)*text) * 1099511628211U;
    while (*text++ != '\0');
    return hash;
}

/** The bucket of a hash, from both of its halves. */
static inline uint64_t hash_bucket(uint64_t hash, uint64_t buckets)
{
    return (hash ^ hash >> 32) % buckets;
}
