/*
 * registry/stored_blob.h -- finds, reads, mounts and unlinks the blobs of a repository.
 *
 * A repository has a digest only if the digest was pushed to it or mounted in it; content of other repositories is
 * never revealed. What only a training run has uploaded is held: the repository has it for nobody until the run is admitted. Bytes are returned only after they were verified. A blob that does not verify is marked once, with
 * an event. From then on it counts as missing for HEAD, mount and manifests, so a new push repairs it.
 */
#pragma once

#include "crypto/digest.h"
#include "registry/blob_row.h"
#include "registry/brought_label.h"
#include "registry/registry.h"

struct stored_blob;

/** A change without an effect: reads a blob's row in the transaction of the record that permits it, for stored_blob_find(). */
struct blob_search {
    struct change change;
    struct resource where;
    enum action action; /* ACTION_BLOB_READ, ACTION_RUN_FETCH or ACTION_BLOB_STAT */
    char digest[DIGEST_TEXT_SIZE];
    int64_t lease_s;
    enum { BLOB_SEARCH_OPEN, BLOB_SEARCH_FOUND, BLOB_SEARCH_MISSED } found; /* open: the change has not run */
    struct blob_row row;
};
void blob_search_prepare(const struct registry *registry, enum action action, const struct resource *where, const char *digest,
                         struct blob_search *search_out);

struct blob_query {
    enum action action; /* the permit's: ACTION_BLOB_READ, ACTION_RUN_FETCH, or ACTION_BLOB_STAT, with which it can't be opened */
    const struct resource *where;
    const char *digest;
    const struct blob_search *search; /* of the same, or NULL */
    bool also_held; /* ACTION_RUN_FETCH without a search, after held_checkpoint_has(): what is held is found too */
};
/**
 * ERROR_NOT_FOUND if the repository has no such digest. ACTION_BLOB_STAT renews the lease: a client does not push a
 * blob that exists, so it must stay until the manifest comes.
 */
RESULT stored_blob_find(const struct permit *permit, struct registry *registry, struct pg *pg, const struct blob_query *query,
                        struct stored_blob **blob_out, struct error *err) __attribute__((nonnull(1, 2, 4, 5, 6)));
/**
 * The same without waiting. A blob for ACTION_BLOB_READ is then open, and not marked as damaged. False if it would
 * have to wait, or failed.
 */
bool stored_blob_open_cached(const struct permit *permit, struct registry *registry, const struct blob_query *query,
                             struct stored_blob **blob_out) __attribute__((nonnull));
uint64_t stored_blob_size(const struct stored_blob *blob);
bool stored_blob_is_damaged(const struct stored_blob *blob);
/**
 * For ACTION_BLOB_READ: is the blob sound? If it is marked as damaged, all of its records are verified again; if they
 * verify, the mark is removed, with an event. At most 64 MiB every two seconds are verified so; other blobs keep
 * their mark. Blocks.
 */
bool stored_blob_is_sound_now(struct stored_blob *blob);
/** Unwraps the blob's key; does not access the region. */
RESULT stored_blob_open(struct stored_blob *blob, struct error *err);
/** stored_blob_read() without waiting; false if it would have to wait, or failed. */
bool stored_blob_read_cached(struct stored_blob *blob, uint64_t offset, uint8_t *into, size_t length);
/**
 * Reads exactly `length` verified bytes from `offset`; offsets may come in any order. The first read checks header,
 * trailer and extents first. Bytes that do not verify are read from the disk again; if they fail again, the blob is
 * marked: ERROR_CORRUPT. May block.
 */
RESULT stored_blob_read(struct stored_blob *blob, uint64_t offset, uint8_t *into, size_t length, struct error *err);
void stored_blob_free(struct stored_blob *blob);
DEFINE_OWNED(stored_blob);

/**
 * A change: lets `target` serve a digest that `source` serves. Both belong to one project, so they share region and
 * key. ERROR_NOT_FOUND if the source has no sound blob of it; ERROR_LIMIT if its label can't be brought. The permit has blob.mount on target and blob.read on
 * source.
 */
struct blob_mount {
    struct change change;
    struct resource target, source; /* a repository with a nil id is made */
    char digest[DIGEST_TEXT_SIZE];
    struct uuid repository; /* set by the change: the id of the target's repository */
    int64_t lease_s;
    unsigned repositories_max;         /* the most repositories of the project */
    const struct brought_label *label; /* of the source, which the target does not have; NULL: none; must outlive the record */
};
void blob_mount_prepare(const struct registry *registry, const struct resource *target, const struct resource *source,
                        const char *digest, struct blob_mount *mount_out);

/**
 * A change, of the event that tells of a refused push: shreds the blobs that the manifest names and that only this push can have brought. No manifest of
 * the repository needs such a blob, no other repository has it, and no run holds it. Its wrapped key goes with its row, so nobody reads it from
 * then on; its object is removed later. The permit is for `action`: manifest.push or manifest.promote. `manifest` must outlive the record.
 */
struct manifest;
struct refused_push {
    struct change change;
    enum action action;
    struct resource where;
    const struct manifest *manifest;
    int64_t shredded; /* set by the change: blobs */
};
void refused_push_prepare(enum action action, const struct resource *where, const struct manifest *manifest,
                          struct refused_push *refused_out);

/** A change: the repository no longer serves the digest. ERROR_NOT_FOUND; ERROR_CONFLICT while a manifest needs it. */
struct blob_unlink {
    struct change change;
    struct resource where;
    char digest[DIGEST_TEXT_SIZE];
};
void blob_unlink_prepare(const struct resource *where, const char *digest, struct blob_unlink *unlink_out);
