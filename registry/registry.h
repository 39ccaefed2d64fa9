/*
 * registry/registry.h -- what all functions of this folder share: regions, keys, and uploads in progress.
 *
 * Rule: a function that reads or changes an artifact takes the permit for exactly that as its first argument: none does not
 * compile, another one aborts. Work of the server's own (jobs, tidying) has itself permitted (permit_for_job()). The
 * gateway sees blobs and rows through this folder only. For any number of threads; docs/registry.md tells the story.
 */
#pragma once

#include "audit/sequencer.h"
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
    /* s3: as storage/driver_s3.h has them; none is NULL */
    const char *endpoint, *bucket, *bucket_location, *prefix, *access_key_file, *ca_file, *endpoint_networks;
    uint64_t page_cache_blob_max; /* fs: driver_fs_open()'s cached_max */
};
#define REGISTRY_REGIONS_MAX 32 /* as many as the configuration may name */

/** Open uploads that a project, one client (subject and credential) in it, and all projects of an organisation may have; the first
 *  two without a quota of their own. Of more than half, those end with which nothing got on for idle_s. */
struct session_limits {
    unsigned per_project, per_client, per_organisation, idle_s;
};
#define UPLOAD_SESSIONS_PER_PROJECT 1000 /* open at the same time by default; more are ERROR_LIMIT */
#define UPLOAD_SESSIONS_PER_OWNER   250  /* of them by one subject and credential, so that nobody takes them all */
#define UPLOAD_SESSIONS_PER_ORGANISATION 5000 /* of all its projects */
#define UPLOAD_IDLE_S               3600   /* without a request that gets on */

/** Projects of an organisation and repositories of a project, with those that were deleted and still hold something. */
struct place_limits {
    unsigned projects_per_organisation, repositories_per_project;
};
#define PROJECTS_PER_ORGANISATION 2000 /* all gateways have the names of all in memory */
#define REPOSITORIES_PER_PROJECT  10000

struct registry_options {
    struct keyd_client *keyd;    /* must outlive the registry, as must the sequencer */
    struct sequencer *sequencer; /* for what the registry finds by itself: damaged blobs, expired uploads */
    const char *database;        /* connection string: for the parts of uploads to buckets */
    size_t region_count;
    const struct registry_region *regions;
    unsigned key_lifetime_ms;    /* how long an unwrapped key may be served: 60000 */
    unsigned key_count;          /* how many: 4096 */
    unsigned uploads_max;        /* uploads that write at the same time: 256; more are ERROR_LIMIT */
    unsigned uploads_idle_max;   /* of them, writers kept between two PATCHes, 1.2 MiB each: 32 */
    struct session_limits uploads_open; /* 0: as above, as in the next */
    struct place_limits places;
    unsigned lease_s;            /* how long what was pushed, mounted or told of is safe from collection; 0: 24 hours */
};

/** Opens all regions. ERROR_INVALID for an unknown driver, or whatever the driver says. */
RESULT registry_new(const struct registry_options *options, struct registry **registry_out, struct error *err);
/**
 * For the start: a region whose rows name blobs but whose store has no object at all is a file system that is not
 * mounted, or another place by mistake (ERROR_UNAVAILABLE). Serving it would mark each blob that is read as damaged.
 * A bucket must be where bucket_location says.
 */
RESULT registry_check_regions(const struct registry *registry, struct pg *pg, struct error *err);
/**
 * Every few seconds, by one thread: can each folder still be used, and now and then, is each bucket still where it must be?
 * The first that is not, or can't be asked; all are asked, and what came of it is remembered for the two functions below.
 */
RESULT registry_check_places(struct registry *registry, struct error *err);
/** ERROR_INVALID: the database has blobs in a region that is not configured here. Remembered as well. */
RESULT registry_check_served(struct registry *registry, struct pg *pg, struct error *err);
/**
 * For /readyz, from memory. ERROR_UNAVAILABLE names a region that has blobs and is not configured here, or that a person must mend,
 * or that does not answer at all. A bucket's store that can't be reached just now is the store's outage, not ours.
 */
RESULT registry_regions_ready(struct registry *registry, struct error *err);
/** Of one region, from memory. */
bool registry_region_has_problem(struct registry *registry, const char *region);
/** The same for each region, for Prometheus, with the room that it has. Never waits for a region. */
RESULT registry_write_metrics(struct registry *registry, struct buffer *text, struct error *err);

/** A region as this gateway sees it. */
struct region_view {
    char id[REGION_ID_MAX + 1];
    char driver[8]; /* "fs", "s3", "memory" */
    bool is_served; /* it is in this gateway's configuration */
    char problem[256]; /* why it is not ready; "": it is */
};
/** All that the database knows, by id. The permit is of ACTION_REGION_READ. The caller owns *views_out (free()). */
RESULT registry_list_regions(const struct permit *permit, struct registry *registry, struct pg *pg,
                             struct region_view **views_out, size_t *count_out, struct error *err) __attribute__((nonnull));
/** Wipes cached keys that are older than their lifetime; to be called twice a lifetime or so. */
void registry_forget_old_keys(struct registry *registry);
/** Wipes all cached keys at once: a shredding was announced. */
void registry_forget_keys(struct registry *registry);
/** No upload or blob of it may be open. */
void registry_free(struct registry *registry);
DEFINE_OWNED(registry);

/**
 * Fills in the id of the repository that resource->project and resource->name say; leaves it nil if there is none.
 * Used before the decision, so it tells the caller nothing by itself. `version` is of the names (decider_names_version()), asked
 * before: what is remembered under another one is not believed. ERROR_UNAVAILABLE.
 */
RESULT registry_resolve(struct registry *registry, struct lookup *lookup, uint64_t version, struct resource *resource,
                        struct error *err) __attribute__((nonnull));
/** The same, if it can be done without asking the database; false: nothing was done. */
bool registry_recall(struct registry *registry, uint64_t version, struct resource *resource);

/** What was noted in memory of pulls goes to the database; what fails is kept for the next time. Blocks. */
RESULT registry_write_notes(struct registry *registry, struct pg *pg, struct error *err);
/** So many are noted that they should be written now. */
bool registry_notes_are_many(struct registry *registry);
