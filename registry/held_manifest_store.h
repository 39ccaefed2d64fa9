/* registry/held_manifest_store.h -- the tables `held_manifest` and `held_blob`. The caller has checked the permit. */
#pragma once

#include "registry/held_manifest.h"
#include "registry/key_cache.h"

/* In SQL: whether a run that is not admitted, or a kept checkpoint, needs the blob b of any repository. */
#define BLOB_IS_HELD(blob)                                                                                                 \
    "(EXISTS (SELECT FROM repository_blob l JOIN held_blob h ON h.repository_id = l.repository_id AND h.digest = l.digest" \
    " JOIN run n ON n.run_id = h.run_id WHERE l.blob_id = " blob " AND n.state <> 'succeeded'"                             \
    " AND (n.ended_at IS NULL OR n.ended_at > now() - interval '30 days') OFFSET 0)"                                       \
    " OR EXISTS (SELECT FROM repository_blob l JOIN run_checkpoint_blob h ON h.repository_id = l.repository_id"            \
    " AND h.digest = l.digest WHERE l.blob_id = " blob " OFFSET 0))"

/* The blobs that a manifest needs: all its references, because a run's manifest is none of an index. Views of the manifest. */
struct held_blobs {
    struct bytes *digests;
    int64_t *sizes;
    size_t count;
};
void held_blobs_done(struct held_blobs *blobs);
#define OWNED_HELD_BLOBS __attribute__((cleanup(held_blobs_done))) struct held_blobs
RESULT held_blobs_list(const struct manifest *manifest, struct held_blobs *blobs, struct error *err);
/** Whether all are in the repository, whole. ERROR_INVALID names one; `what` names the manifest. */
RESULT held_blobs_check(struct pg *pg, const struct resource *where, const char *what, const struct held_blobs *blobs,
                        struct error *err);

/* In SQL: whether an admitted run has made the manifest. Its log and metrics count as long as one of its outputs is there. Digests in `gone` count
 * as removed from the repository. */
#define MANIFEST_IS_ADMITTED(repository, digest_text, gone)                                                      \
    "EXISTS (SELECT FROM held_manifest h JOIN run n ON n.run_id = h.run_id WHERE h.repository_id = " repository  \
    " AND h.digest = " digest_text " AND n.state = 'succeeded' AND (h.name NOT IN ('log', 'metrics') OR EXISTS"  \
    " (SELECT FROM held_manifest o JOIN manifest s ON s.repository_id = o.repository_id AND s.digest = o.digest" \
    " WHERE o.run_id = h.run_id AND o.name NOT IN ('log', 'metrics')"                                            \
    " AND (s.repository_id <> " repository " OR s.digest <> ALL(" gone ")))) OFFSET 0)"

RESULT held_row_insert(struct pg *pg, const struct held_key *key, const struct held_manifest *held, struct error *err);

/** A row: views of `rows`. */
struct held_row {
    const char *name, *digest, *full_name, *region;
    const char *key_region; /* of the key that it is sealed under: another one while a project's home moves */
    struct uuid repository;
    struct key_record key;
    struct bytes sealed;
    bool is_deleted;
};
RESULT held_rows_find(struct pg *pg, const struct held_key *key, const struct uuid *project, struct pg_rows **rows_out,
                      struct error *err);
RESULT held_row_read(const struct pg_rows *rows, size_t row, struct held_row *row_out, struct error *err);
RESULT held_links_insert(struct pg *pg, const struct held_links *links, struct error *err);
