/*
 * registry/registry.h -- the state that all functions of this folder share: regions, keys, and uploads in progress.
 *
 * Rule: a function that reads or changes an artifact takes the permit for exactly that as its first argument. A call
 * without a permit does not compile; a call with another one aborts. The server's own work (jobs, cleaning up) gets
 * its permits from permit_for_job(). The gateway sees blobs and rows through this folder only. For any number of
 * threads. See docs/registry.md.
 */
#pragma once

#include "audit/sequencer.h"
#include "outgoing/peers.h"
#include "storage/lookup.h"
#include "storage/pg.h"

struct keyd_client;
struct registry;

/** The statements of this folder: for pg_open() of every worker, and for the sequencer's changes. */
extern const struct pg_table project_statements, repository_statements, seal_statements, stored_blob_statements,
    stored_manifest_statements, tag_statements, quota_statements, rules_statements, manifest_use_statements, region_store_table;

/** A region that this gateway serves; its row must be in the database before a project can have it as its home. */
struct registry_region {
    const char *id;       /* "local/main" */
    const char *driver;   /* "fs", "s3" or "memory" */
    const char *location; /* fs: the folder; its parent must exist */
    /* s3: as in storage/driver_s3.h; none is NULL */
    const char *endpoint, *bucket, *bucket_location, *prefix, *access_key_file, *ca_file, *endpoint_networks;
    uint64_t page_cache_blob_max; /* fs: driver_fs_open()'s cached_max */
};
#define REGISTRY_REGIONS_MAX 32 /* the most regions in a configuration */

/**
 * The most open uploads of a project, of one client (subject and credential) in it, and of an organisation. A quota
 * of the project replaces the first two. Above half of a limit, uploads without progress for idle_s end.
 */
struct session_limits {
    unsigned per_project, per_client, per_organisation, idle_s;
};
#define UPLOAD_SESSIONS_PER_PROJECT      1000 /* open at the same time by default; more are ERROR_LIMIT */
#define UPLOAD_SESSIONS_PER_OWNER        250  /* by one subject and credential, so that one client can't take them all */
#define UPLOAD_SESSIONS_PER_ORGANISATION 5000 /* of all its projects */
#define UPLOAD_IDLE_S                    3600 /* seconds without a request that makes progress */

/**
 * The most projects of an organisation and repositories of a project, including deleted ones whose content is not
 * removed yet.
 */
struct namespace_limits {
    unsigned projects_per_organisation, repositories_per_project;
};
#define PROJECTS_PER_ORGANISATION 2000 /* each gateway has all names in memory */
#define REPOSITORIES_PER_PROJECT  10000

/** For regions that only the policy set names. "" is none. Must outlive the registry. */
struct registry_recorded {
    const char *folder;     /* their folders are below it; "": none is a folder */
    const char *key_folder; /* for the bucket aws/x the file aws-x; "": none is a bucket */
    const char *networks, *ca_file;
    uint64_t page_cache_blob_max;
    const char *keyd_folder; /* the sockets of the sijil-keyd of regions: for aws/x aws-x; "": there are none here */
};

struct registry_options {
    struct keyd_client *keyd;    /* must outlive the registry, as must the sequencer */
    struct sequencer *sequencer; /* records the registry's own findings: damaged blobs, expired uploads */
    const char *database;        /* connection string: for the parts of uploads to buckets; must outlive the registry */
    size_t region_count;
    const struct registry_region *regions;
    struct registry_recorded recorded;
    struct peers elsewhere;             /* regions that other gateways serve: this one never opens them */
    unsigned key_lifetime_ms;           /* how long an unwrapped key may be served: 60000 */
    unsigned key_count;                 /* 4096 */
    unsigned uploads_max;               /* uploads that may write at the same time: 256; more are ERROR_LIMIT */
    unsigned uploads_idle_max;          /* idle writers kept between two PATCHes, 1.2 MiB each: 32 */
    struct session_limits uploads_open; /* a 0 stands for the default above; also in the next */
    struct namespace_limits namespaces;
    unsigned lease_s; /* how long content is safe from collection after a push, a mount or a HEAD; 0: 24 hours */
};

/** Opens all regions. ERROR_INVALID for an unknown driver; errors of the drivers. */
RESULT registry_new(const struct registry_options *options, struct registry **registry_out, struct error *err);
/** From memory: does a person have to repair the region, or does it not answer a check? */
bool registry_region_has_problem(struct registry *registry, const char *region);

/** A copy was read, because what is at home is damaged: sijil_copies_read_total. */
void registry_count_rescued(void);
#define REGISTRY_HOST_SIZE PEER_URL_SIZE
/** Whether other gateways serve the region, by the configuration; and the host of one of them, or "". */
bool registry_is_elsewhere(const struct registry *registry, const char *region, char host_out[REGISTRY_HOST_SIZE]);
/** From memory: does this gateway serve the region, is it open, and has it no problem? */
bool registry_region_is_readable(struct registry *registry, const char *region);

/** A region as this gateway sees it. */
struct region_view {
    char id[REGION_ID_MAX + 1];
    char driver[8];          /* "fs", "s3", "memory" */
    bool is_served;          /* it is in this gateway's configuration */
    char problem[256];       /* why it is not ready; "": it is */
    char disagreement[304];  /* what its record and its store do not agree on, at this gateway's last look; "": nothing */
    bool has_keyd, has_keys; /* its keys are with a sijil-keyd of its own; this gateway can have them now */
    char keyd[44], keyd_problem[256];  /* thumbprint of its key; what is wrong with it, "": nothing */
    uint64_t keyd_epoch, keyd_unwraps; /* the policy set that it was told of; keys that it has opened */
    int64_t keyd_current_ms;           /* when it was told last, by wall time; 0: not since its start */
    uint32_t keyd_version;             /* of its key-encryption keys, the newest; 0: it did not answer */
};
/** All regions in the database, by id. The permit is for ACTION_REGION_READ. The caller owns *views_out (free()). */
RESULT registry_list_regions(const struct permit *permit, struct registry *registry, struct pg *pg,
                             struct region_view **views_out, size_t *count_out, struct error *err) __attribute__((nonnull));
/** No upload or blob of it may be open. */
void registry_free(struct registry *registry);
DEFINE_OWNED(registry);

/**
 * Fills in the id of the repository with resource->project and resource->name; leaves it nil if there is none. It
 * runs before the decision, so its result must not reach the client by itself. `version` is decider_names_version()
 * from before the call: cached ids of another version are ignored. ERROR_UNAVAILABLE.
 */
RESULT registry_resolve(struct registry *registry, struct lookup *lookup, uint64_t version, struct resource *resource,
                        struct error *err) __attribute__((nonnull));
/** The same from the cache. False: not in the cache, and nothing was done. */
bool registry_resolve_cached(struct registry *registry, uint64_t version, struct resource *resource);
