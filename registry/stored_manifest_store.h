/*
 * registry/stored_manifest_store.h -- the tables `manifest` and `manifest_reference`, and tags as a push sets them.
 */
#pragma once

#include "registry/key_cache.h"
#include "registry/stored_manifest.h"

#define SQL_TEXT_OF(number) #number
#define SQL(number)         SQL_TEXT_OF(number)
/* In SQL: tags of one manifest, one more than it may have at most, so that a statement under the log's lock ends soon. */
#define TAGS_OF(repository, digest)                                                              \
    "(SELECT name FROM tag WHERE repository_id = " repository " AND manifest_digest = " digest   \
    " LIMIT " SQL(MANIFEST_ALL_TAGS_MAX) " + 1)"
#define HAS_TOO_MANY_TAGS(repository, digest) \
    "(SELECT count(*) > " SQL(MANIFEST_ALL_TAGS_MAX) " FROM " TAGS_OF(repository, digest) " many)"
/* Those of them that rules make immutable, by one join. Says nothing where HAS_TOO_MANY_TAGS(), which is to be asked as well. */
#define IMMUTABLE_TAGS_OF(repository, digest)                                                    \
    "(SELECT t.name FROM repository n JOIN project_rules q USING (project_id)"                   \
    " CROSS JOIN LATERAL unnest(q.immutable_repositories, q.immutable_tags) AS i (repositories, tags)" \
    " JOIN " TAGS_OF(repository, digest) " t ON t.name LIKE i.tags"                              \
    " WHERE n.repository_id = " repository " AND n.name LIKE i.repositories)"

/** Inserts manifest, references and tags. ERROR_NOT_FOUND fills in push->missing; ERROR_DENIED for an immutable tag that would
 *  move, for more than MANIFEST_ALL_TAGS_MAX tags, and when the project's quota has no room. */
RESULT manifest_rows_insert(struct pg *pg, struct manifest_push *push, struct error *err);
/** With its tags. ERROR_NOT_FOUND; ERROR_DENIED when one of them is immutable, and for what was stored less than keeping->days ago;
 *  ERROR_CONFLICT while an index lists it, for more than MANIFEST_ALL_TAGS_MAX tags, and when the condition (NULL: none) does not hold. */
RESULT manifest_row_delete(struct pg *pg, const struct uuid *repository, const char *digest, const struct policy_keeping *keeping,
                           struct manifest_condition *condition, struct error *err);
/** ERROR_CONFLICT when it does not hold. `condition` may be NULL. What is not there can't be deleted, whatever is asked of it:
 *  `is_deletion` lets it pass. */
RESULT manifest_condition_check(struct pg *pg, const struct uuid *repository, struct manifest_condition *condition, bool is_deletion,
                                struct error *err);

/** A row as it is read: views of `rows`. */
struct manifest_row {
    const char *digest, *media_type, *artifact_type; /* artifact_type may be "" */
    int64_t size_bytes;
    struct key_record key;
    struct bytes sealed;
};
/** By digest or by tag: one row in *rows_out, or none. */
RESULT manifest_rows_find(struct pg *pg, const struct uuid *repository, const char *reference,
                          struct pg_rows **rows_out, struct error *err);
/** What states this subject, and what the index under its referrers tag lists and states none, in byte order of digests. */
struct referrer_key {
    struct uuid repository;
    const char *subject, *artifact_type, *last;
    int64_t limit;
    int64_t bytes; /* no row after so many bytes of manifests, so that a query's answer fits into memory */
};
RESULT manifest_rows_referring(struct pg *pg, const struct referrer_key *key, struct pg_rows **rows_out,
                               struct error *err);
RESULT manifest_row_read(const struct pg_rows *rows, size_t row, struct manifest_row *row_out, struct error *err);
