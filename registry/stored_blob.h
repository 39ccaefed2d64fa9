/*
 * registry/stored_blob.h -- blobs that a repository may serve: found, read, mounted, unlinked.
 *
 * A digest is there only if this repository pushed or mounted it; what other repositories have is never told. Bytes
 * are given only after they were verified. A blob that fails is marked once, with an event, and from then on counts
 * as missing for HEAD, mount and manifests, so that a client that pushes again heals it.
 */
#pragma once

#include "crypto/digest.h"
#include "registry/registry.h"
#include "registry/stored_blob_store.h"

struct stored_blob;

/** A change that changes nothing: reads a blob's row in the transaction of the record that permits it, for stored_blob_find(). */
struct blob_search {
    struct change change;
    struct resource where;
    enum action action; /* ACTION_BLOB_READ or ACTION_BLOB_STAT */
    char digest[DIGEST_TEXT_SIZE];
    int64_t lease_s;
    enum { BLOB_SEARCH_OPEN, BLOB_SEARCH_FOUND, BLOB_SEARCH_MISSED } found; /* open: it did not come to it */
    struct blob_row row;
};
void blob_search_prepare(const struct registry *registry, enum action action, const struct resource *where, const char *digest,
                         struct blob_search *search_out);

struct blob_query {
    enum action action; /* that the permit is for: ACTION_BLOB_READ, or ACTION_BLOB_STAT: then it can't be opened */
    const struct resource *where;
    const char *digest;
    const struct blob_search *search; /* of the same, or NULL */
};
/** ERROR_NOT_FOUND when the repository has no such digest. For ACTION_BLOB_STAT its lease is renewed: the client will not
 *  push what it is told of, so that must stay until the manifest comes. */
RESULT stored_blob_find(const struct permit *permit, struct registry *registry, struct pg *pg, const struct blob_query *query,
                        struct stored_blob **blob_out, struct error *err) __attribute__((nonnull(1, 2, 4, 5, 6)));
/** The same if that needs no waiting; what was found for ACTION_BLOB_READ is open, and sound as far as the database knows. False: it
 *  does, or it fails. */
bool stored_blob_recall(const struct permit *permit, struct registry *registry, const struct blob_query *query,
                        struct stored_blob **blob_out) __attribute__((nonnull));
uint64_t stored_blob_size(const struct stored_blob *blob);
bool stored_blob_is_damaged(const struct stored_blob *blob);
/**
 * For ACTION_BLOB_READ: true if it is not marked as damaged, or if it is and every record verifies now: then the mark goes, with an
 * event. At most 64 MiB every two seconds are looked at; what is not looked at keeps its mark. Blocks.
 */
bool stored_blob_is_sound_now(struct stored_blob *blob);
/** The mark goes, with an event. For whoever has verified all of it. No mark is a success. */
RESULT stored_blob_unmark(struct registry *registry, const struct resource *where, const struct uuid *blob, struct error *err);
/** Unwraps its key; asks nothing of the region. */
RESULT stored_blob_open(struct stored_blob *blob, struct error *err);
/** As stored_blob_read() if that needs no waiting; false: it does, or it fails. */
bool stored_blob_read_at_once(struct stored_blob *blob, uint64_t offset, uint8_t *into, size_t length);
/** Exactly `length` bytes from `offset`, verified; in any order. The first read checks header, trailer and extents before.
 *  What does not verify is asked of the disk again; if it does not then either, ERROR_CORRUPT marks it. May block. */
RESULT stored_blob_read(struct stored_blob *blob, uint64_t offset, uint8_t *into, size_t length,
                        struct error *err);
void stored_blob_free(struct stored_blob *blob);
DEFINE_OWNED(stored_blob);

/**
 * A change: lets `target` serve a digest that `source` serves. Both belong to one project, so to one region and key.
 * ERROR_NOT_FOUND when the source has no sound blob of it. The permit holds blob.mount on target and blob.read on
 * source.
 */
struct blob_mount {
    struct change change;
    struct resource target, source;  /* the target's repository is made if its id is nil */
    char digest[DIGEST_TEXT_SIZE];
    struct uuid repository;          /* set by the change: the target's */
    int64_t lease_s;
    unsigned repositories_max;       /* of the project */
};
void blob_mount_prepare(const struct registry *registry, const struct resource *target, const struct resource *source,
                        const char *digest, struct blob_mount *mount_out);

/** A change: the repository no longer serves the digest. ERROR_NOT_FOUND; ERROR_CONFLICT while a manifest needs it. */
struct blob_unlink {
    struct change change;
    struct resource where;
    char digest[DIGEST_TEXT_SIZE];
};
void blob_unlink_prepare(const struct resource *where, const char *digest, struct blob_unlink *unlink_out);
