/*
 * registry/manifest_cache_priv.h -- a cache of manifests' rows, so that a repeated read needs no database.
 *
 * It holds sealed bytes only, so a reader still needs the project's key. A row is valid only while
 * sequencer_alterations() has the value from before the row was read. The reader compares it after its own event is
 * durable, so no acknowledged change is missed. Bounded in rows and in bytes; for any number of threads.
 */
#pragma once

#include "registry/stored_manifest_store.h"

#define MANIFEST_CACHE_ROWS  4096
#define MANIFEST_CACHE_BYTES ((size_t)16 << 20)
#define MANIFEST_CACHED_MAX  ((size_t)16 << 10) /* larger ones are rare, and reading the row is a small part of their cost */

struct manifest_cache;
struct cached_manifest;

RESULT manifest_cache_new(struct manifest_cache **cache_out, struct error *err);
void manifest_cache_free(struct manifest_cache *cache);
DEFINE_OWNED(manifest_cache);

/** A tag or a digest of a repository, as of `alterations`. */
struct manifest_key {
    struct uuid repository;
    const char *reference;
    uint64_t alterations;
};

/** Adds a copy of the row. A row that is too large, or for which memory lacks, is not added. */
void manifest_cache_put(struct manifest_cache *cache, const struct manifest_key *key, const struct manifest_row *row);
/** NULL if it is not in the cache, or not valid any more. The row's views last until cached_manifest_free(). */
struct cached_manifest *manifest_cache_get(struct manifest_cache *cache, const struct manifest_key *key,
                                           struct manifest_row *row_out);
void cached_manifest_free(struct cached_manifest *cached);
DEFINE_OWNED(cached_manifest);
