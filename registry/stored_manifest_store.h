/*
 * registry/stored_manifest_store.h -- the tables `manifest` and `manifest_reference`, and tags as a push sets them.
 */
#pragma once

#include "registry/key_cache.h"
#include "registry/stored_manifest.h"

#define SQL_TEXT_OF(number) #number
#define SQL(number)         SQL_TEXT_OF(number)
/* In SQL: the tags of one manifest, at most one more than it may have, so that a statement under the log's lock ends soon. */
#define TAGS_OF(repository, digest)                                                            \
    "(SELECT name FROM tag WHERE repository_id = " repository " AND manifest_digest = " digest \
    " LIMIT " SQL(MANIFEST_ALL_TAGS_MAX) " + 1)"
#define HAS_TOO_MANY_TAGS(repository, digest) \
    "(SELECT count(*) > " SQL(MANIFEST_ALL_TAGS_MAX) " FROM " TAGS_OF(repository, digest) " many)"
/* The immutable ones among them, by one join. It is incomplete if HAS_TOO_MANY_TAGS(), so check that as well. */
#define IMMUTABLE_TAGS_OF(repository, digest)                                                          \
    "(SELECT t.name FROM repository n JOIN project_rules q USING (project_id)"                         \
    " CROSS JOIN LATERAL unnest(q.immutable_repositories, q.immutable_tags) AS i (repositories, tags)" \
    " JOIN " TAGS_OF(repository, digest) " t ON t.name LIKE i.tags"                                    \
                                         " WHERE n.repository_id = " repository " AND n.name LIKE i.repositories)"

/**
 * Inserts manifest, references and tags. ERROR_NOT_FOUND fills in push->missing; ERROR_DENIED for an immutable tag
 * that would move, for more than MANIFEST_ALL_TAGS_MAX tags, and if the project's quota has no room.
 */
RESULT manifest_rows_insert(struct pg *pg, struct manifest_push *push, struct error *err);
/**
 * Deletes the manifest with its tags. ERROR_NOT_FOUND; ERROR_DENIED if a tag is immutable, or `retention` requires the
 * manifest to be kept; ERROR_CONFLICT while an index lists it, for more than MANIFEST_ALL_TAGS_MAX tags, and if the condition
 * (NULL: none) does not hold.
 */
RESULT manifest_row_delete(struct pg *pg, const struct uuid *repository, const char *digest,
                           const struct policy_retention *retention, struct manifest_condition *condition, struct error *err);
/**
 * ERROR_CONFLICT if it does not hold. `condition` may be NULL. With `is_deletion` a missing manifest passes, because
 * the deletion itself fails with ERROR_NOT_FOUND.
 */
RESULT manifest_condition_check(struct pg *pg, const struct uuid *repository, struct manifest_condition *condition,
                                bool is_deletion, struct error *err);

/** A row: views of `rows`. */
struct manifest_row {
    const char *digest, *media_type, *artifact_type; /* artifact_type may be "" */
    int64_t size_bytes;
    struct key_record key;
    char key_region[REGION_ID_MAX + 1]; /* the home, also if the read is decided for a region with copies */
    struct bytes sealed;
};
/** By digest or by tag: one row in *rows_out, or none. */
RESULT manifest_rows_find(struct pg *pg, const struct uuid *repository, const char *reference, struct pg_rows **rows_out,
                          struct error *err);
/**
 * Manifests that state this subject, and manifests without a subject that the index under its referrers tag lists, in
 * byte order of digests.
 */
struct referrer_key {
    struct uuid repository;
    const char *subject, *artifact_type, *last;
    int64_t limit;
    int64_t bytes; /* the most bytes of manifests in a query's answer, to bound memory */
};
RESULT manifest_rows_referring(struct pg *pg, const struct referrer_key *key, struct pg_rows **rows_out, struct error *err);
RESULT manifest_row_read(const struct pg_rows *rows, size_t row, struct manifest_row *row_out, struct error *err);
