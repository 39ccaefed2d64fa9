/*
 * registry/registry_priv.h -- what struct registry holds, and the keys of its rows.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "crypto/digest.h"
#include "registry/key_cache.h"
#include "registry/registry.h"
#include "storage/blob.h"

struct manifest_cache;
struct manifest_uses;
struct repository_cache;
struct upload_table;

struct registry {
    struct keyd_client *keyd;
    struct sequencer *sequencer;
    struct key_cache *keys;
    struct repository_cache *repositories;
    struct manifest_cache *manifests;
    struct manifest_uses *uses;
    struct upload_table *uploads;
    pthread_mutex_t looked;
    _Atomic int64_t looking_ms; /* monotonic: since then a region is asked how it is; 0: none */
    atomic_size_t looking_at;
    char unserved[REGION_ID_MAX + 1]; /* under `looked`: has blobs, and is not configured here; "": none */
    _Atomic int64_t looked_again_ms; /* monotonic: when a marked blob was last verified for a read; 0: never */
    _Atomic int copies; /* of uploads that are read again (upload_close.c) */
    struct session_limits uploads_open;
    struct place_limits places;
    int64_t lease_s; /* how long a fresh blob, or one that somebody was told of, is safe from collection */
    size_t region_count;
    struct registry_store {
        char id[REGION_ID_MAX + 1];
        struct blob_store *blobs;
        const char *driver; /* "fs", "s3" or "memory" */
        int64_t checked_ms; /* monotonic; the checking thread's alone, 0: not yet */
        char problem[sizeof((struct error *)0)->message]; /* under `looked`: what a person must mend; "": nothing */
        bool has_room;           /* under `looked`, as is the next */
        struct driver_room room; /* when it was last looked at */
        size_t unremovable; /* of the oldest abandoned objects: could not be removed lately; the janitor's alone */
    } regions[REGISTRY_REGIONS_MAX];
};

/**
 * Where something of `owner` that is called `name` belongs in a cache with so many places (FNV-1a). Ids are random, and
 * names that meet only cost a query each.
 */
size_t registry_place(const struct uuid *owner, const char *name, size_t places);

/** The blobs of a region. ERROR_UNAVAILABLE when this gateway does not serve it. */
RESULT registry_blobs(const struct registry *registry, const char *region, struct blob_store **blobs_out,
                      struct error *err);

/** One of registry_check_regions(). */
RESULT registry_check_region(const struct registry *registry, const char *region, struct pg *pg, struct error *err);

/** Organisation, project and region of the decision's resource: what keyd derives the key from. */
struct key_scope registry_key_scope(const struct resource *where);
/** From the cache, or from keyd. ERROR_CORRUPT when the row does not belong to `where`. */
RESULT registry_unwrap(struct registry *registry, const struct resource *where, const struct key_record *record,
                       struct secret **key_out, struct error *err);
/** The same from the cache alone; false: it is not there. */
bool registry_key_at_hand(struct registry *registry, const struct resource *where, const struct key_record *record,
                          struct secret **key_out);
/** Keeps a key that was just made or unwrapped. */
void registry_remember_key(struct registry *registry, const struct resource *where, const struct key_record *record,
                           const struct secret *key);

/** Key columns of a row: version, wrapped bytes, commitment. ERROR_CORRUPT when they are of impossible sizes. */
RESULT key_record_read(const struct pg_rows *rows, size_t row, size_t first_column, struct key_record *record,
                       struct error *err);
/** The same three as arguments. */
void key_record_add(struct pg_arguments *arguments, const struct key_record *record);

RESULT repository_cache_new(struct repository_cache **cache_out, struct error *err);
void repository_cache_free(struct repository_cache *cache);
DEFINE_OWNED(repository_cache);
