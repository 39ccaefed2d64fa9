/*
 * registry/stored_blob_store.h -- the tables `blob` and `repository_blob`.
 */
#pragma once

#include "registry/key_cache.h"
#include "registry/registry.h"
#include "storage/blob.h"

struct blob_row {
    struct key_record key; /* its id is the blob's */
    struct blob_content content;
    bool is_damaged;
};

/**
 * Inserts the blob of a project and region, unless the digest is there. *kept_out is the one that the digest now
 * means; *dropped_out the other one, nil without one: the new one if the old one is sound, else the old one.
 */
RESULT blob_row_insert(struct pg *pg, const struct resource *where, const struct blob_row *fresh,
                       struct uuid *kept_out, struct uuid *dropped_out, struct error *err);
RESULT blob_row_link(struct pg *pg, const struct uuid *repository, const struct digest *digest,
                     const struct uuid *blob, struct error *err);
/** Of this repository, project and region. ERROR_NOT_FOUND. */
RESULT blob_row_find(struct pg *pg, const struct resource *where, const char *digest, struct blob_row *row_out,
                     struct error *err);
/** ERROR_CONFLICT when it was marked already. */
RESULT blob_row_mark_damaged(struct pg *pg, const struct uuid *blob, struct error *err);

/** Does any blob lie in this region, by the rows? */
RESULT blob_rows_in_region(struct pg *pg, const char *region, bool *used_out, struct error *err);
