/*
 * audit/archive_priv.h -- leaves that are not in the rows of their entries.
 */
#pragma once

#include "audit/archive.h"

/** Leaves that were read from pieces, for the rows of one answer. */
struct archived_leaves;

/**
 * Reads the leaves of all rows that have an empty one. `columns`: of the sequence number and of the leaf. *leaves_out is NULL if there is none.
 * ERROR_FORKED: an entry has no leaf, and is in no piece. ERROR_UNAVAILABLE, also without a store.
 */
RESULT archived_load(struct pg *pg, const struct pg_rows *rows, const size_t columns[2], struct archived_leaves **leaves_out,
                     struct error *err);
/**
 * The same leaves once more, for other rows of the same entries; NULL if they lack one that is wanted. Each is freed. One thread has both.
 */
struct archived_leaves *archived_share(struct archived_leaves *leaves, const struct pg_rows *rows, const size_t columns[2]);
/** The leaf of a row: its own, or the one that was read. `leaves` may be NULL. */
struct bytes archived_leaf(const struct archived_leaves *leaves, const struct pg_rows *rows, size_t row, size_t column);
void archived_leaves_free(struct archived_leaves *leaves);
DEFINE_OWNED(archived_leaves);

/* --- archive_store.c --- */
/** ERROR_NOT_FOUND. */
RESULT archive_select(struct pg *pg, uint64_t piece, struct archive_place *place_out, struct error *err);
/** The first number that is no piece. */
RESULT archive_next_piece(struct pg *pg, uint64_t *piece_out, struct error *err);
/** Does nothing if the piece is noted already. */
RESULT archive_insert(struct pg *pg, uint64_t piece, const struct archive_place *place, uint64_t sequence, struct error *err);
