/* registry/jobs/scrub_store.h -- the rows that a scrub reads. */
#pragma once

#include "registry/jobs/job.h"
#include "registry/stored_blob_store.h"
#include "storage/driver.h"

struct scrub_blob {
    struct blob_row row;
    struct resource where; /* its project; detail: the digest */
};
/** Blobs of the region after `after`, in the order of their ids, at most `limit`. */
struct scrub_page {
    const char *region;
    struct uuid after;
    const char *after_digest; /* of manifests */
    size_t limit;
};
RESULT scrub_blobs(struct pg *pg, const struct scrub_page *page, struct scrub_blob *blobs_out, size_t *count_out,
                   struct error *err);
/** Is the row still the same? */
RESULT scrub_blob_is_there(struct pg *pg, const struct scrub_blob *blob, bool *there_out, struct error *err);

struct scrub_manifest {
    struct key_record key;
    struct resource where; /* its repository; detail: the digest */
    size_t size_bytes;
    struct bytes sealed; /* a view of the rows */
};
/** The views are valid until the caller frees *rows_out. */
RESULT scrub_manifests_page(struct pg *pg, const struct scrub_page *page, struct scrub_manifest *manifests_out,
                            struct pg_rows **rows_out, struct error *err);

/** Counts blobs, manifests and bytes into the job's totals. */
RESULT scrub_total(struct pg *pg, const char *region, struct job *job, struct error *err);

/** The blob, upload or abandoned object that an object of the listing belongs to. */
struct scrub_owner {
    bool is_known;  /* a row of a blob, an upload or an abandoned object has its id */
    bool is_beside; /* the blob has been closed for an hour, and this extent is not its last */
};
#define SCRUB_BATCH 256 /* objects in one query */
/** For `count` objects of a listing, at most SCRUB_BATCH, in their order. */
RESULT scrub_owners(struct pg *pg, const struct driver_entry *entries, size_t count, struct scrub_owner *owners_out,
                    struct error *err);
/** *found_out is false if it does not exist any more. */
RESULT scrub_blob_find(struct pg *pg, const char *region, const struct uuid *id, struct scrub_blob *blob_out, bool *found_out,
                       struct error *err);
