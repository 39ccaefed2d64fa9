/* registry/registry_priv.h -- the members of struct registry, and the keys in rows. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "audit/archive.h"
#include "crypto/digest.h"
#include "registry/key_cache.h"
#include "registry/region_keys_priv.h"
#include "registry/registry.h"
#include "storage/blob.h"

struct manifest_cache;
struct manifest_uses;
struct repository_cache;
struct upload_table;

struct registry {
    struct keyd_client *keyd;
    struct sequencer *sequencer;
    struct archive_store log_archive; /* set by registry_log_archive() */
    struct key_cache *keys;
    struct repository_cache *repositories;
    struct manifest_cache *manifests;
    struct manifest_uses *uses;
    struct upload_table *uploads;
    pthread_mutex_t problem_lock;
    _Atomic int64_t check_began_ms; /* monotonic: start of the running check of a region; 0: none */
    atomic_size_t checked_index;
    char unserved[REGION_ID_MAX + 1];  /* under `problem_lock`: a region that has blobs and is not configured here; "": none */
    _Atomic int64_t verified_again_ms; /* monotonic: when a marked blob was last verified for a read; 0: never */
    _Atomic int copies;                /* running copies of uploads (registry/upload/upload_copy.c) */
    struct session_limits uploads_open;
    struct namespace_limits namespaces;
    int64_t lease_s; /* how long a blob is safe from collection after a push or a HEAD */
    const char *database;
    struct registry_recorded recorded;
    struct peers elsewhere;
    size_t key_count; /* under `problem_lock`, like the next member */
    struct region_keys key_places[REGISTRY_REGIONS_MAX];
    atomic_size_t region_count; /* grows after a region was opened, by the checking thread alone */
    struct registry_store {
        char id[REGION_ID_MAX + 1];
        struct blob_store *blobs;
        const char *driver;                                               /* "fs", "s3" or "memory" */
        char endpoint[256], bucket[64], bucket_location[64], prefix[128]; /* of a bucket, else "" */
        int64_t
            scanned_ms; /* monotonic; of the last look at the store; used by the checking thread only, as is the next member */
        uint64_t scanned_epoch; /* of the policy set at that time */
        atomic_bool wants_look; /* its keys are newly not where its record says */
        bool lacked_mark;       /* then its mark was recorded, and not there; used by the checking thread only */
        atomic_bool is_marking; /* this gateway has recorded the mark, and has yet to write it */
        char disagreement[304]; /* under `problem_lock`: what its record and the store do not agree on; "": they agree */
        int64_t checked_ms;     /* monotonic; used by the checking thread only; 0: not yet */
        char
            problem[sizeof((struct error *)0)->message]; /* under `problem_lock`: a problem that a person must repair; "": none */
        bool has_room;                                   /* under `problem_lock`, like the next member */
        struct driver_room room;                         /* at the last check */
        _Atomic uint64_t copies_waiting, copies_waiting_bytes, copies_denied; /* of all projects (registry/copies/copier.h) */
        _Atomic int64_t copies_lag_s;
        size_t unremovable; /* oldest abandoned objects that could not be removed lately; used by the maintenance thread only */
    } regions[REGISTRY_REGIONS_MAX];
};

/**
 * The slot of `name` of `owner` in a cache with so many slots (base/hash.h). Owners' ids are random, and a collision only
 * costs a query.
 */
size_t registry_slot(const struct uuid *owner, const char *name, size_t slots);

/** Opens a region and begins to serve it. Errors of the drivers; ERROR_LIMIT. For the start and the checking thread. */
RESULT registry_open_region(struct registry *registry, const struct registry_region *region, struct error *err);
/** The blobs of a region. ERROR_UNAVAILABLE if this gateway does not serve it. */
RESULT registry_blobs(const struct registry *registry, const char *region, struct blob_store **blobs_out, struct error *err);

/** registry_check_regions() for one region. */
RESULT registry_check_region(const struct registry *registry, const char *region, struct pg *pg, struct error *err);

/** Organisation, project and region of the decision's resource: sijil-keyd derives the wrapping key from them. */
struct key_scope registry_key_scope(const struct resource *where);
/** From the cache, or from sijil-keyd. ERROR_CORRUPT if the row does not belong to `where`. */
RESULT registry_unwrap(struct registry *registry, const struct resource *where, const struct key_record *record,
                       struct secret **key_out, struct error *err);
/** The same from the cache only; false if it is not there. */
bool registry_key_cached(struct registry *registry, const struct resource *where, const struct key_record *record,
                         struct secret **key_out);
/** Adds a new or unwrapped key to the cache. */
void registry_remember_key(struct registry *registry, const struct resource *where, const struct key_record *record,
                           const struct secret *key);

/** Reads the key columns of a row: version, wrapped bytes, commitment. ERROR_CORRUPT if their sizes are impossible. */
RESULT key_record_read(const struct pg_rows *rows, size_t row, size_t first_column, struct key_record *record, struct error *err);
/** Adds the same three as arguments. */
void key_record_add(struct pg_arguments *arguments, const struct key_record *record);

RESULT repository_cache_new(struct repository_cache **cache_out, struct error *err);
void repository_cache_free(struct repository_cache *cache);
DEFINE_OWNED(repository_cache);
