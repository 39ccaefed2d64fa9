/*
 * registry/stored_manifest.h -- manifests in PostgreSQL: their exact bytes, sealed, and what they refer to.
 *
 * What is served is what was pushed, byte for byte: it is opened, digested again, and refused if it differs.
 */
#pragma once

#include "policy/decider.h" /* struct policy_keeping */
#include "registry/manifest.h"
#include "registry/registry.h"

#define MANIFEST_TAGS_MAX 12 /* in one push; the specification asks for at least 10, and each is a header of the answer */
#define MANIFEST_ALL_TAGS_MAX 4096 /* of one manifest: they go with it, in one transaction under the log's lock */

/** What a client asks of the manifest that a reference names, before it is changed: asked in the transaction of the change. */
struct manifest_condition {
    /** Both NULL: there is none. `holds` NULL: nothing is asked. Called by the sequencer's thread; may read what lives as long as the record. */
    bool (*holds)(const struct manifest_condition *condition, const char *digest, const char *media_type);
    const char *reference; /* a digest or a tag */
    bool has_failed;       /* set when the change fails with ERROR_CONFLICT because it does not hold */
};

/** A change: stores the manifest and sets tags, in the transaction of its event. ERROR_DENIED when a tag is immutable, when the manifest
 *  would have more than MANIFEST_ALL_TAGS_MAX, and when the project's quota has no room. */
struct manifest_push {
    struct change change;
    struct resource where;
    const struct manifest *manifest;
    char digest[DIGEST_TEXT_SIZE];
    size_t size_bytes;
    struct uuid key;                    /* that it is sealed under */
    struct buffer sealed;
    const char *const *tags;            /* checked by tag_is_valid(); must outlive the record */
    size_t tag_count;
    struct manifest_condition *condition; /* NULL: none; must outlive the record */
    char detail[CHANGE_DETAIL_MAX + 1]; /* what the event says: the digest, and behind blanks the tags */
    char missing[DIGEST_TEXT_SIZE];     /* set when the change fails with ERROR_NOT_FOUND: the first one that is */
    bool is_wrong;                      /* set when it fails with ERROR_INVALID: what it says of what is here is not so */
};
/** Seals the bytes; stores nothing. The caller calls manifest_push_done(). `manifest` must outlive the record. */
RESULT manifest_push_prepare(struct registry *registry, struct pg *pg, const struct resource *where,
                             struct bytes body, struct manifest_push *push, struct error *err);
void manifest_push_done(struct manifest_push *push);

struct stored_manifest {
    char digest[DIGEST_TEXT_SIZE];
    char media_type[MEDIA_TYPE_MAX + 1];
    size_t size_bytes;
    struct buffer body;                 /* empty for ACTION_MANIFEST_STAT */
};
/** By digest or by tag. `where` is of the permit for `action`. ERROR_NOT_FOUND, ERROR_CORRUPT. */
struct manifest_query {
    enum action action;                 /* ACTION_MANIFEST_READ or ACTION_MANIFEST_STAT */
    const struct resource *where;
    const char *reference;
};
RESULT stored_manifest_find(const struct permit *permit, struct registry *registry, struct pg *pg, const struct manifest_query *query,
                            struct stored_manifest **manifest_out, struct error *err) __attribute__((nonnull));
/** The same from memory: never blocks. False: it is not at hand, or anything else; ask stored_manifest_find(). */
bool stored_manifest_recall(const struct permit *permit, struct registry *registry, const struct manifest_query *query,
                            struct stored_manifest **manifest_out) __attribute__((nonnull));
void stored_manifest_free(struct stored_manifest *manifest);
DEFINE_OWNED(stored_manifest);

/** A change: the manifest with all its tags. ERROR_NOT_FOUND; ERROR_DENIED when one of them is immutable, or a policy keeps it;
 *  ERROR_CONFLICT while an index lists it, and when it has more than MANIFEST_ALL_TAGS_MAX tags, from before there was a limit. */
struct manifest_delete {
    struct change change;
    struct resource where;
    struct policy_keeping keeping; /* of `where` */
    char digest[DIGEST_TEXT_SIZE];
    struct manifest_condition *condition; /* NULL, as it is prepared: none */
};
void manifest_delete_prepare(const struct resource *where, const char *digest, const struct policy_keeping *keeping,
                             struct manifest_delete *delete_out);

/**
 * Appends to page->descriptors the descriptors (JSON objects with commas between them) of what refers to `subject`, in byte order of
 * their digests after `last` ("" for the start), until `page_bytes` or `read_bytes` are reached. `artifact_type` "" for any.
 * page->last is the digest to go on after, "" at the end. `where` is of the permit for referrer.list.
 */
struct referrer_query {
    const struct resource *where;
    const char *subject, *artifact_type, *last;
    size_t page_bytes;   /* of descriptors */
    uint64_t read_bytes; /* of manifests that they are made from: large ones make small pages */
};
struct referrer_page {
    struct buffer descriptors;
    char last[DIGEST_TEXT_SIZE];
};
RESULT referrers_list(const struct permit *permit, struct registry *registry, struct pg *pg, const struct referrer_query *query,
                      struct referrer_page *page, struct error *err) __attribute__((nonnull));
