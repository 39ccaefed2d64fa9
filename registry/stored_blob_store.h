/*
 * registry/stored_blob_store.h -- the tables `blob` and `repository_blob`.
 */
#pragma once

#include "registry/blob_row.h"
#include "registry/registry.h"

/** The commit of an upload: its session, its blob, and the repository. */
struct blob_commit {
    const struct resource *where;
    const struct blob_row *fresh;
    struct uuid upload;
    uint64_t writer_epoch; /* of the writer's claim */
    int64_t lease_s;       /* how long it is safe from collection */
    bool is_held;          /* uploaded by a run: no request finds it */
};
/**
 * Ends the session, inserts the blob unless the project has the digest in this region, and links the digest to the
 * repository. *dropped_out is the blob that is not needed any more, or nil: the new one if an older one is sound,
 * else the older one. ERROR_CONFLICT if another writer has the session; then no row was changed. ERROR_DENIED if the
 * project's quota has no room, which happens only if the quota was set during the upload.
 */
RESULT blob_row_commit(struct pg *pg, const struct blob_commit *commit, struct uuid *dropped_out, struct error *err);
/**
 * The same as one statement of a pipeline. Its answer is the id of the present blob; if that is an older one, the new
 * one becomes abandoned. It raises an error if blob_row_commit() would have more to do, or would fail.
 */
RESULT blob_row_add_commit(struct pg *pg, const struct blob_commit *commit, struct error *err);
struct blob_location {
    const struct resource *where; /* its repository, project and region */
    const char *digest;
    int64_t lease_s;
    bool also_held; /* also what only a run has uploaded */
};
RESULT blob_row_find(struct pg *pg, const struct blob_location *location, struct blob_row *row_out, bool *found_out,
                     struct error *err);
/** The same as one statement of a pipeline, whose answer blob_row_take_find() reads. */
RESULT blob_row_add_find(struct pg *pg, const struct blob_location *location, struct error *err);
RESULT blob_row_take_find(const struct pg_rows *answer, const char *digest, struct blob_row *row_out, bool *found_out,
                          struct error *err);
/**
 * Renews the lease, so that a client that learns of the blob can rely on it for so long. ERROR_NOT_FOUND: it has been
 * collected.
 */
RESULT blob_row_renew(struct pg *pg, const struct uuid *blob, int64_t lease_s, struct error *err);
/** ERROR_CONFLICT if it is marked already. */
RESULT blob_row_mark_damaged(struct pg *pg, const struct uuid *blob, struct error *err);

/** The same, but succeeds if it is marked already. */
RESULT blob_row_note_damage(struct pg *pg, const struct uuid *blob, struct error *err);
/** For changes: removes the mark. ERROR_NOT_FOUND without a mark. */
RESULT blob_row_unmark(struct pg *pg, const struct uuid *blob, struct error *err);

/** Has the region any row of a blob? */
RESULT blob_rows_in_region(struct pg *pg, const char *region, bool *used_out, struct error *err);
/** The first region that has blobs and is not in the list; "" if there is none. */
RESULT blob_rows_elsewhere(struct pg *pg, const struct bytes *regions, size_t count, char region_out[REGION_ID_MAX + 1],
                           struct error *err);
