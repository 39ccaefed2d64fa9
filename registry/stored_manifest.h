/*
 * registry/stored_manifest.h -- manifests in PostgreSQL: their exact bytes, sealed, and their references.
 *
 * A manifest is served exactly as it was pushed: it is opened and digested again, and refused if the digest differs.
 */
#pragma once

#include "policy/decider/decider.h" /* struct policy_retention */
#include "registry/brought_label.h"
#include "registry/manifest.h"
#include "registry/registry.h"

#define MANIFEST_TAGS_MAX     12 /* in one push; the specification requires at least 10, and each becomes a header of the answer */
#define MANIFEST_ALL_TAGS_MAX 4096 /* of one manifest: all are deleted with it, in one transaction under the log's lock */

/** A client's condition on the present manifest of a reference. It is checked in the transaction of the change. */
struct manifest_condition {
    /**
     * `digest` and `media_type` are NULL if there is no manifest. A NULL `holds` is no condition. The sequencer's
     * thread calls it, so all that it reads must live as long as the record.
     */
    bool (*holds)(const struct manifest_condition *condition, const char *digest, const char *media_type);
    const char *reference; /* a digest or a tag */
    bool has_failed;       /* set if the change fails with ERROR_CONFLICT because the condition does not hold */
};

/**
 * A change: stores the manifest and sets tags, in the transaction of its event. ERROR_DENIED if a tag is immutable,
 * if the manifest would have more than MANIFEST_ALL_TAGS_MAX tags, if the project's quota has no room, and if its label can't be brought.
 */
struct manifest_push {
    struct change change;
    struct resource where;
    const struct manifest *manifest;
    char digest[DIGEST_TEXT_SIZE];
    size_t size_bytes;
    struct uuid key; /* the key of the seal */
    struct buffer sealed;
    bool is_promotion;       /* the permit is for manifest.promote, and not for manifest.push */
    const char *const *tags; /* checked by tag_is_valid(); must outlive the record */
    size_t tag_count;
    const struct uuid *run;               /* that keeps it as a checkpoint; NULL: it is no checkpoint */
    struct manifest_condition *condition; /* NULL: none; must outlive the record */
    const struct brought_label *label;    /* that it brings to its repository; NULL: none; must outlive the record */
    char detail[CHANGE_DETAIL_MAX + 1];   /* of the event: the digest, and the tags after spaces */
    char missing[DIGEST_TEXT_SIZE];       /* set if the change fails with ERROR_NOT_FOUND: the first missing digest */
    bool is_label_refused;                /* set if it fails because its label can't be brought */
    bool is_wrong; /* set if it fails with ERROR_INVALID: a stated size or media type differs from the stored one */
};
/**
 * For the decision about a push: whether it is under a tag that the project's rules protect, and the names of repositories in other projects that
 * had some of its bytes before this project. Nobody is told of a source that it may not read.
 */
struct push_origins {
    bool is_protected;
    struct buffer names; /* each name with its zero; the caller's, for at most PUSH_ORIGINS_BYTES */
};
#define PUSH_ORIGINS_BYTES ((size_t)1000 * (RESOURCE_NAME_MAX + 1))
RESULT manifest_push_origins(struct lookup *lookup, const struct resource *where, const struct manifest_push *push,
                             struct push_origins *origins, struct error *err);
/** Seals the bytes; stores nothing. The caller calls manifest_push_done(). `manifest` must outlive the record. */
RESULT manifest_push_prepare(struct registry *registry, struct pg *pg, const struct resource *where, struct bytes body,
                             struct manifest_push *push, struct error *err);
void manifest_push_done(struct manifest_push *push);

struct stored_manifest {
    char digest[DIGEST_TEXT_SIZE];
    char media_type[MEDIA_TYPE_MAX + 1];
    size_t size_bytes;
    char sealed_in[REGION_ID_MAX + 1]; /* the region whose key opens it */
    struct buffer body;                /* empty for ACTION_MANIFEST_STAT, and `without_body` */
};
/** By digest or by tag. `where` is of the permit for `action`. ERROR_NOT_FOUND, ERROR_CORRUPT. */
struct manifest_query {
    enum action action; /* ACTION_MANIFEST_READ, ACTION_RUN_FETCH or ACTION_MANIFEST_STAT */
    const struct resource *where;
    const char *reference;
    const struct uuid *run; /* for held_checkpoint_find(): the run that continues from it; else NULL */
    bool without_body;      /* it is not opened, because the key is not here */
};
RESULT stored_manifest_find(const struct permit *permit, struct registry *registry, struct pg *pg,
                            const struct manifest_query *query, struct stored_manifest **manifest_out, struct error *err)
    __attribute__((nonnull));
/** The same from the cache; never blocks. False if it is not cached or something failed: then call stored_manifest_find(). */
bool stored_manifest_find_cached(const struct permit *permit, struct registry *registry, const struct manifest_query *query,
                                 struct stored_manifest **manifest_out) __attribute__((nonnull));
void stored_manifest_free(struct stored_manifest *manifest);
DEFINE_OWNED(stored_manifest);

/**
 * A change: deletes the manifest with all its tags. ERROR_NOT_FOUND; ERROR_DENIED if a tag is immutable, or a policy
 * requires it to be kept; ERROR_CONFLICT while an index lists it, and if it has more than MANIFEST_ALL_TAGS_MAX tags,
 * from before that limit.
 */
struct manifest_delete {
    struct change change;
    struct resource where;
    struct policy_retention retention; /* of `where` */
    char digest[DIGEST_TEXT_SIZE];
    struct manifest_condition *condition; /* NULL, as prepared: none */
};
void manifest_delete_prepare(const struct resource *where, const char *digest, const struct policy_retention *retention,
                             struct manifest_delete *delete_out);

/**
 * Appends the descriptors of manifests that refer to `subject` to page->descriptors: JSON objects with commas between
 * them. They are in byte order of their digests, after `last` ("" for the start), until `page_bytes` or `read_bytes`
 * is reached. `artifact_type` is "" for any. page->last is the digest to continue after, "" at the end. `where` is
 * the resource of the permit for referrer.list.
 */
struct referrer_query {
    const struct resource *where;
    const char *subject, *artifact_type, *last;
    size_t page_bytes;   /* of descriptors */
    uint64_t read_bytes; /* of the manifests that are read; large ones make small pages */
};
struct referrer_page {
    struct buffer descriptors;
    char last[DIGEST_TEXT_SIZE];
};
RESULT referrers_list(const struct permit *permit, struct registry *registry, struct pg *pg, const struct referrer_query *query,
                      struct referrer_page *page, struct error *err) __attribute__((nonnull));
