/*
 * registry/copies/copy_target.h -- the end of a copy that is written: it receives bytes, encrypts them under a key of its region, and commits the copy.
 *
 * Rule: the permit has copy.write, or move.write, for this repository, region and digest. A copy is there when its row is; before that, its bytes can be read by nobody, and
 * copy_target_drop() or a sweep removes them. A writer that was killed goes on at its last checkpoint.
 */
#pragma once

#include "registry/copies/copying_store.h"

struct copy_target;

struct copy_destination {
    struct resource where; /* the repository, with the region that gets the copy and the digest as its detail */
    enum action action;    /* that the permit has */
};
/** ERROR_UNAVAILABLE, ERROR_FULL. */
RESULT copy_target_begin(const struct permit *permit, struct registry *registry, struct pg *pg,
                         const struct copy_destination *destination, struct copy_target **target_out, struct error *err)
    __attribute__((nonnull));
/** Bytes of content that it has: the next ones come from here on. */
uint64_t copy_target_offset(const struct copy_target *target);
/** The content has `length` bytes in all. Each 64 MiB are made durable, with their row. ERROR_CONFLICT: another gateway writes this copy. */
RESULT copy_target_write(struct copy_target *target, struct pg *pg, struct bytes content, struct error *err);
/** Makes all bytes so far durable, so that the next gateway goes on from here. */
RESULT copy_target_save(struct copy_target *target, struct pg *pg, struct error *err);
/** Compares the digest, and makes the object durable. ERROR_INVALID: another digest. */
RESULT copy_target_close(struct copy_target *target, struct error *err);
/** Fills in the commit of a closed copy; the caller adds what it knows of the source. */
RESULT copy_target_commit(struct copy_target *target, struct copy_commit *commit, struct error *err);
/** After the commit is durable. */
void copy_target_committed(struct copy_target *target);
/** Nothing of it stays: neither row nor object. */
void copy_target_drop(struct copy_target *target, struct registry *registry, struct pg *pg);
void copy_target_free(struct copy_target *target);
DEFINE_OWNED(copy_target);
