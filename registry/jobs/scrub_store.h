/*
 * registry/jobs/scrub_store.h -- the rows that a scrub goes over.
 */
#pragma once

#include "registry/jobs/job.h"
#include "registry/stored_blob_store.h"

struct scrub_blob {
    struct blob_row row;
    struct resource where; /* its project; detail: the digest */
};
/** Those of the region after `after`, in order of their ids; at most `limit`, *count_out. */
struct scrub_page {
    const char *region;
    struct uuid after;
    const char *after_digest; /* of manifests */
    size_t limit;
};
RESULT scrub_blobs(struct pg *pg, const struct scrub_page *page, struct scrub_blob *blobs_out, size_t *count_out,
                   struct error *err);
/** Is it still the row that it was? */
RESULT scrub_blob_is_there(struct pg *pg, const struct scrub_blob *blob, bool *there_out, struct error *err);

struct scrub_manifest {
    struct key_record key;
    struct resource where; /* its repository; detail: the digest */
    size_t size_bytes;
    struct bytes sealed;   /* a view of the rows */
};
/** The caller frees *rows_out after it has used the views. */
RESULT scrub_manifests_page(struct pg *pg, const struct scrub_page *page, struct scrub_manifest *manifests_out,
                            struct pg_rows **rows_out, struct error *err);

/** How many blobs and manifests there are, and how many bytes. */
RESULT scrub_total(struct pg *pg, const char *region, struct job *job, struct error *err);

/** Whose object is it? */
struct scrub_owner {
    bool is_known;    /* a row of a blob, an upload or an abandoned object names its id */
    bool is_beside;   /* the blob is closed for an hour, and this is not the extent that closes it */
};
#define SCRUB_BATCH 256 /* objects that the tables are asked for together */
/** Of `count` objects of a listing, at most SCRUB_BATCH, in their order. */
RESULT scrub_owners(struct pg *pg, const struct driver_entry *entries, size_t count, struct scrub_owner *owners_out,
                    struct error *err);
/** *found_out is false when it is no more. */
RESULT scrub_blob_find(struct pg *pg, const char *region, const struct uuid *id, struct scrub_blob *blob_out, bool *found_out,
                       struct error *err);
