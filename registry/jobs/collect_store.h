/*
 * registry/jobs/collect_store.h -- the statements of the garbage collection.
 *
 * Rule: rows that were read may have changed since. A statement that removes a row checks all conditions again. It
 * runs as a change, so it holds the log's lock (docs/decisions/0020-collection-beside-pushes.md).
 */
#pragma once

#include "crypto/digest.h"
#include "policy/decider/copies.h"
#include "registry/registry.h"

struct collect_project {
    struct uuid id, organisation;
    char name[RESOURCE_NAME_MAX + 1], region[REGION_ID_MAX + 1];
    const char *rules; /* the document; a view of *rows_out */
    int64_t rules_version;
    bool is_deleted; /* then its name and its repositories' names are the former ones */
};
/** The first project after `last` (nil: of all), or `only` (NULL: any). No row in *rows_out: there is none. */
RESULT collect_next_project(struct pg *pg, const struct uuid *last, const struct uuid *only, struct collect_project *project,
                            struct pg_rows **rows_out, struct error *err);

struct collect_repository {
    struct uuid id;
    char path[RESOURCE_NAME_MAX + 1], name[RESOURCE_NAME_MAX + 1]; /* path: below the project; name: in full */
    bool is_held;                                                  /* by a legal hold */
};
/** The first repository of a project after the path `last`. *found_out: there is one. */
RESULT collect_next_repository(struct pg *pg, const struct uuid *project, const char *last,
                               struct collect_repository *repository_out, bool *found_out, struct error *err);

/** Manifests that a dry run counts as removed. */
struct collect_gone {
    size_t count;
    const struct bytes *repositories, *digests; /* of the manifests, as parallel arrays */
};

#define COLLECT_TAGS_MAX 100000 /* of a repository; in a larger one all manifests are kept */

/** A manifest as it was read: all values must be the same when it is removed. */
struct collect_manifest {
    char digest[DIGEST_TEXT_SIZE];
    int64_t size_bytes, renewed_us, used_us, tags;
};
struct collect_tag {
    const char *name, *digest; /* views of the rows */
    int64_t pushed_ms, pulled_ms;
    bool is_attachment;
    bool is_first; /* the newest tag of its digest */
    bool is_held;  /* it has a lease, or an index needs it */
};
struct collect_range {
    const struct uuid *repository;
    const struct collect_gone *gone; /* of this repository */
    int64_t age_s;                   /* younger manifests are skipped */
    int64_t kept_s;                  /* manifests without a tag are kept this long after their last push, even without a pull */
};
/** Counts expired sessions that have not been ended. */
RESULT collect_count_expired(struct pg *pg, const struct session_limits *limits, int64_t *count_out, struct error *err);
/** Counts the blobs of a project; NULL: of all. */
RESULT collect_count_blobs(struct pg *pg, const struct uuid *project, uint64_t *count_out, struct error *err);
/** More than COLLECT_TAGS_MAX tags? */
RESULT collect_has_too_many_tags(struct pg *pg, const struct uuid *repository, bool *too_many_out, struct error *err);
/** All tags, newest push first; COLLECT_TAGS_MAX + 1 of them if there are more. */
RESULT collect_read_tags(struct pg *pg, const struct collect_range *range, struct pg_rows **rows_out, struct error *err);
void collect_tag_of(const struct pg_rows *rows, size_t row, struct collect_tag *tag_out);
void collect_manifest_of(const struct pg_rows *rows, size_t row, struct collect_manifest *manifest_out);
/** The next `limit` manifests after `last`, also those that something refers to. */
RESULT collect_read_untagged(struct pg *pg, const struct collect_range *range, const char *last, size_t limit,
                             struct pg_rows **rows_out, struct error *err);
/** True if it is old enough and nothing refers to it: no tag, no index, and its subject does not exist. */
bool collect_untagged_of(const struct pg_rows *rows, size_t row, struct collect_manifest *manifest_out);

/** The next `limit` manifests after `last` that were first pushed longer than age_s ago. */
RESULT collect_read_past(struct pg *pg, const struct collect_range *range, const char *last, size_t limit,
                         struct pg_rows **rows_out, struct error *err);
void collect_past_of(const struct pg_rows *rows, size_t row, struct collect_manifest *manifest_out);
/** How many there are. */
RESULT collect_count_past(struct pg *pg, const struct uuid *repository, int64_t age_s, int64_t *count_out, struct error *err);

/**
 * The regions that are to have the content of a repository, the home region first, and how far each is behind: the age of the oldest blob that it lacks and
 * that a manifest needs.
 */
#define COLLECT_REGIONS_MAX 10
RESULT collect_placed(struct pg *pg, const struct collect_project *project, const struct uuid *repository,
                      struct placed_region regions_out[COLLECT_REGIONS_MAX], size_t *count_out, struct error *err);

/** Why a manifest goes: no rule keeps its tags; it has no tag, and nothing needs it; the retain_max_days of a policy are over. */
enum collect_why { COLLECT_RETENTION, COLLECT_UNTAGGED, COLLECT_EXPIRED };

/** One change of a batch. */
struct collect_manifest_row {
    struct uuid repository, project;
    int64_t rules_version;
    int64_t expires_s; /* COLLECT_EXPIRED: the age at which it goes */
    enum collect_why why;
    bool is_erased; /* its repository was deleted: nothing else is checked */
    struct collect_manifest manifest;
};
/** Deletes a manifest with its tags. ERROR_CONFLICT if it is needed, or differs from the row that was read; no row is changed
 *  then. */
RESULT collect_manifest_row_delete(struct pg *pg, const struct collect_manifest_row *row, struct error *err);

/** Deletes a manifest that is older than row->expires_s, with its tags. ERROR_CONFLICT: a hold keeps it, or it has too many tags; no row is changed then. */
RESULT collect_manifest_row_expire(struct pg *pg, const struct collect_manifest_row *row, struct error *err);

struct collect_blob {
    struct uuid blob;
    char digest[DIGEST_TEXT_SIZE], region[REGION_ID_MAX + 1];
    int64_t size_bytes;
    bool is_garbage;
};
/** The next `limit` blobs of a project after *last, in the order of its index, garbage or not. */
struct collect_blob_query {
    const struct uuid *project;
    const struct collect_blob *last;
    const struct collect_gone *gone; /* of the project */
    size_t limit;
};
RESULT collect_read_blobs(struct pg *pg, const struct collect_blob_query *query, struct pg_rows **rows_out, struct error *err);
void collect_blob_of(const struct pg_rows *rows, size_t row, struct collect_blob *blob_out);
/** Deletes row and links, and abandons the object. ERROR_CONFLICT if it is needed again; no row is changed then. */
RESULT collect_blob_row_delete(struct pg *pg, const struct uuid *blob, struct error *err);
