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
    bool is_due; /* less than half of its lease is left */
};

/** What ends an upload: its session, the blob that came of it, and the repository that it was pushed to. */
struct blob_commit {
    const struct resource *where;
    const struct blob_row *fresh;
    struct uuid upload;
    uint64_t writer_epoch; /* that the session's writer claimed */
    int64_t lease_s;       /* how long it is safe from collection */
};
/**
 * Ends the session, inserts the blob of its project and region unless the digest is there, and links the digest to the
 * repository. *dropped_out is the blob that nothing means any more, nil without one: the new one if an older one is
 * sound, else the older one. ERROR_CONFLICT when another writer has the session: then no row was touched.
 * ERROR_DENIED when it is more than the project's quota has left, which only a quota brings that came meanwhile.
 */
RESULT blob_row_commit(struct pg *pg, const struct blob_commit *commit, struct uuid *dropped_out, struct error *err);
/** The same as one statement of a pipeline, which answers the id of the blob that is there now, and puts the new one among the
 *  abandoned if it is another. It raises an error where blob_row_commit() has more to do or fails. */
RESULT blob_row_add_commit(struct pg *pg, const struct blob_commit *commit, struct error *err);
struct blob_place {
    const struct resource *where; /* its repository, project and region */
    const char *digest;
    int64_t lease_s;
};
RESULT blob_row_find(struct pg *pg, const struct blob_place *place, struct blob_row *row_out, bool *found_out, struct error *err);
/** The same as one statement of a pipeline, whose answer blob_row_take_find() reads. */
RESULT blob_row_add_find(struct pg *pg, const struct blob_place *place, struct error *err);
RESULT blob_row_take_find(const struct pg_rows *answer, const char *digest, struct blob_row *row_out, bool *found_out, struct error *err);
/** Whoever is told that it is there may count on it for so long. ERROR_NOT_FOUND: it was collected meanwhile. */
RESULT blob_row_renew(struct pg *pg, const struct uuid *blob, int64_t lease_s, struct error *err);
/** ERROR_CONFLICT when it was marked already. */
RESULT blob_row_mark_damaged(struct pg *pg, const struct uuid *blob, struct error *err);

/** The same, whether it was marked before or not. */
RESULT blob_row_note_damage(struct pg *pg, const struct uuid *blob, struct error *err);
/** For changes: the mark goes. ERROR_NOT_FOUND without a mark. */
RESULT blob_row_unmark(struct pg *pg, const struct uuid *blob, struct error *err);

/** Does any blob lie in this region, by the rows? */
RESULT blob_rows_in_region(struct pg *pg, const char *region, bool *used_out, struct error *err);
/** The first region that has a blob and is none of these; "" without one. */
RESULT blob_rows_elsewhere(struct pg *pg, const struct bytes *regions, size_t count, char region_out[REGION_ID_MAX + 1],
                           struct error *err);
