/*
 * audit/published.h -- the log as other programs walk it: hash tiles, entry bundles, the checkpoints that were published, and proofs
 * between them (docs/formats/audit-log.md sections 3, 4 and 9; C2SP tlog-tiles).
 *
 * Rule: each function takes the permit first, never null, for the whole registry. Nothing is given away that does not lead to the signed
 * root: ERROR_FORKED. Connections need published_table and audit_tree_table.
 */
#pragma once

#include "audit/format/tile.h"
#include "audit/permit.h"
#include "audit/signed_checkpoint.h"
#include "storage/pg.h"

extern const struct pg_table published_table;

#define PUBLISHED_BUNDLE_MAX ((size_t)TILE_WIDTH * (2 + 4096)) /* bytes: an entry has at most 4,096, and two for its length */

/**
 * The first name->width hashes of a tile, for a tile.read. ERROR_NOT_FOUND: the log of `newest` does not have them.
 */
RESULT published_tile(const struct permit *permit, struct pg *pg, const struct tile_name *name,
                      const struct signed_checkpoint *newest, struct merkle_hash hashes_out[TILE_WIDTH], struct error *err)
    __attribute__((nonnull));
/** Appends the bundle of the first name->width entries, for an entries.read. Errors as published_tile(). */
RESULT published_entries(const struct permit *permit, struct pg *pg, const struct tile_name *name,
                         const struct signed_checkpoint *newest, struct buffer *bundle, struct error *err)
    __attribute__((nonnull));

/** A checkpoint by its size, under the permit of this action for the whole registry or a part of it: a checkpoint has no secret of
 *  tenants. */
struct published_query {
    enum action action;
    const struct log_keys *keys; /* of the log */
    uint64_t size;
};
/** ERROR_NOT_FOUND: no checkpoint of this size was published. Rows that sijil-keyd did not sign are no checkpoints. */
RESULT published_checkpoint(const struct permit *permit, struct pg *pg, const struct published_query *query,
                            struct signed_checkpoint *checkpoint_out, struct error *err) __attribute__((nonnull));

/**
 * Appends, for a checkpoint.read, the proof that the log of `old` is the beginning of the log of `newer`, in the form of the body of
 * add-checkpoint (C2SP tlog-witness): "old N", the hashes, an empty line, and the note of `newer`. ERROR_INVALID if `old` is
 * larger.
 */
struct published_pair {
    const struct signed_checkpoint *old, *newer;
};
RESULT published_consistency(const struct permit *permit, struct pg *pg, const struct published_pair *pair, struct buffer *text,
                             struct error *err) __attribute__((nonnull));

/**
 * The state of the log at a size for which there is no checkpoint, for a checkpoint.read: size and root, without a note. published_consistency() compares
 * it with the signed root. ERROR_INVALID unless size is from 1 to that of `newer`.
 */
RESULT published_state_at(const struct permit *permit, struct pg *pg, uint64_t size, const struct signed_checkpoint *newer,
                          struct signed_checkpoint *state_out, struct error *err) __attribute__((nonnull));

/** A page of the checkpoints, in the order in which they were stored. */
struct published_page;
/** Which rows: the ids that a question leads to. Nothing is found between low > high. */
struct published_bounds {
    int64_t low, high;
    int64_t above; /* only larger sizes; -1: any */
};
/** What is asked for. All three may be left out. */
struct published_wish {
    bool has_entry; /* only checkpoints that have this entry */
    uint64_t entry;
    int64_t since_ms, until_ms; /* only those that were stored from this time on, and before this time; 0: any */
};
/** For a checkpoint.read. Rows that sijil-keyd did not sign lead nowhere. */
RESULT published_find(const struct permit *permit, struct pg *pg, const struct log_keys *keys, const struct published_wish *wish,
                      struct published_bounds *bounds_out, struct error *err) __attribute__((nonnull));
struct published_span {
    struct published_bounds bounds;
    bool ascending;
    bool has_cursor;
    int64_t cursor; /* the id of the last row of the page before */
    size_t limit;   /* 1 to 1000 */
};
/** For a checkpoint.read. */
RESULT published_list(const struct permit *permit, struct pg *pg, const struct published_span *span,
                      struct published_page **page_out, struct error *err) __attribute__((nonnull));
size_t published_page_count(const struct published_page *page);
int64_t published_page_id(const struct published_page *page, size_t index);
struct published_row {
    int64_t stored_ms;
    bool is_signed; /* by sijil-keyd; false: the row is no checkpoint */
    struct signed_checkpoint checkpoint;
    const char *cosigned; /* a note of this size that may have cosignatures; NULL: none is stored. It lives as long as the page */
};
void published_page_row(const struct published_page *page, size_t index, const struct log_keys *keys,
                        struct published_row *row_out);
void published_page_free(struct published_page *page);
DEFINE_OWNED(published_page);
