/*
 * registry/upload/piece.h -- sealed pieces: small objects of a repository's region that are no blobs of a repository.
 *
 * The row of a piece belongs to the caller, which keeps the values of struct sealed_piece in it. While there is no such row, the object
 * counts as abandoned, and is removed after a day; so the caller's transaction moves the row of `abandoned_object` on. Each piece has a key of
 * its own, and 16 random bytes before its content: so equal contents have other digests, and a digest tells nothing about a content.
 *
 * Rule: no code that serves a request may include this (tests/lint/closed_headers.txt); the callers are changes and reads of training/.
 */
#pragma once

#include "registry/key_cache.h"
#include "registry/registry.h"
#include "storage/blob_content.h"

#define PIECE_MAX 262144 /* bytes of content */

struct sealed_piece {
    struct key_record key; /* its id is that of the object */
    struct blob_content content;
    char digest[DIGEST_TEXT_SIZE]; /* of the content */
};

/** Writes the object, durably, in the region of `where`; the row of the piece must follow. ERROR_UNAVAILABLE, ERROR_FULL. */
RESULT piece_seal(struct registry *registry, struct pg *pg, const struct resource *where, struct bytes content,
                  struct sealed_piece *piece_out, struct error *err);
/** A part of a piece. */
struct piece_range {
    uint64_t offset;
    size_t length;
};
/** Appends the range. `where` has organisation, project and region. ERROR_CORRUPT, ERROR_NOT_FOUND, ERROR_UNAVAILABLE. */
RESULT piece_read(struct registry *registry, const struct resource *where, const struct sealed_piece *piece,
                  const struct piece_range *range, struct buffer *into, struct error *err);
/** Finds or makes the repository of `where`; for changes only. */
RESULT piece_repository(const struct registry *registry, struct pg *pg, const struct resource *where, struct uuid *repository_out,
                        struct error *err);

/** Adds seven arguments: blob uuid, digest text, size int8, part int8, version int4, wrapped bytea, commitment bytea. */
void piece_add(struct pg_arguments *arguments, const struct sealed_piece *piece);
/** Reads the same seven columns. ERROR_CORRUPT. */
RESULT piece_take(const struct pg_rows *rows, size_t row, size_t first_column, struct sealed_piece *piece_out, struct error *err);
