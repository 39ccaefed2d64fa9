/*
 * registry/copies/copy_source.h -- the end of a copy that is read: it opens the blob in its region, and decrypts it.
 *
 * Rule: the permit has copy.read for this repository, region and digest. Only verified bytes are returned.
 */
#pragma once

#include "registry/blob_row.h"
#include "registry/registry.h"

struct copy_source;

/**
 * `where`: the repository, with the region that the blob is read in and the digest as its detail. `row` is that of the blob there. ERROR_UNAVAILABLE: the region, or
 * sijil-keyd, is away; ERROR_CORRUPT, ERROR_NOT_FOUND: what is stored is not what the row says.
 */
RESULT copy_source_open(const struct permit *permit, struct registry *registry, const struct resource *where,
                        const struct blob_row *row, struct copy_source **source_out, struct error *err) __attribute__((nonnull));
uint64_t copy_source_length(const struct copy_source *source);
RESULT copy_source_read(struct copy_source *source, uint64_t offset, uint8_t *into, size_t length, struct error *err);
void copy_source_free(struct copy_source *source);
DEFINE_OWNED(copy_source);
