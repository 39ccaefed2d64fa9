/*
 * registry/manifest_cache.h -- rows of manifests as they were read, so that reading one again asks no database.
 *
 * Holds sealed bytes only: whoever answers from here needs the project's key as ever. A row counts only while
 * sequencer_alterations() is what it was before the row was read; its reader looks at that after its own event is
 * durable, so no acknowledged change is ever overlooked. Bounded in rows and in bytes; for any number of threads.
 */
#pragma once

#include "registry/stored_manifest_store.h"

#define MANIFEST_CACHE_ROWS  4096
#define MANIFEST_CACHE_BYTES ((size_t)16 << 20)
#define MANIFEST_CACHED_MAX  ((size_t)16 << 10) /* larger ones are rare, and their reading is not what they cost */

struct manifest_cache;
struct cached_manifest;

RESULT manifest_cache_new(struct manifest_cache **cache_out, struct error *err);
void manifest_cache_free(struct manifest_cache *cache);
DEFINE_OWNED(manifest_cache);

/** What is looked for: a tag or a digest of a repository, as of `alterations`. */
struct manifest_place {
    struct uuid repository;
    const char *reference;
    uint64_t alterations;
};

/** Keeps a copy of the row. What does not fit, or finds no memory, is not kept. */
void manifest_cache_put(struct manifest_cache *cache, const struct manifest_place *place,
                        const struct manifest_row *row);
/** NULL when it is not there, or altered since. The row's views last until cached_manifest_free(). */
struct cached_manifest *manifest_cache_get(struct manifest_cache *cache, const struct manifest_place *place,
                                           struct manifest_row *row_out);
void cached_manifest_free(struct cached_manifest *cached);
DEFINE_OWNED(cached_manifest);
