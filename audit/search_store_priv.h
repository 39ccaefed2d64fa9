/*
 * audit/search_store_priv.h -- the tables of the index of searches (migrations/0058_audit_search.sql).
 */
#pragma once

#include "audit/format/posting.h"
#include "audit/search.h"

/** A key of the index. Blind keys have a row for each subject of a block: an address has few of them, a country thousands. */
enum posting_kind {
    POSTING_OPEN,
    POSTING_NARROW, /* blind: a search reads all its rows */
    POSTING_WIDE    /* blind: a search reads which blocks have it, and rows only where it must */
};
struct posting_key {
    int64_t key;
    enum posting_kind kind;
};
#define POSTING_BLOCKS_MAX   64  /* in one answer */
#define POSTING_SUBJECTS_MAX 512 /* rows of a narrow key in one answer */
/**
 * Up to `most` rows from `block` on that have the key, ascending or descending: block, list. A narrow key's rows have their subject, too
 * (column 2), and a block several of them; a wide key's rows are the blocks alone.
 */
struct posting_seek {
    struct posting_key key;
    bool ascending;
    uint64_t block;
    size_t most;
};
RESULT search_select_blocks(struct pg *pg, const struct posting_seek *seek, struct pg_rows **rows_out, struct error *err);
/** Of each block that has one of the keys and the other key: block and both lists, by block. */
RESULT search_select_words(struct pg *pg, const int64_t *keys, size_t count, int64_t other, struct pg_rows **rows_out,
                           struct error *err);
/** Subjects (`audit_subject.id`). */
struct posting_subjects {
    bool are_all;
    size_t count;
    int64_t ids[POSTING_SUBJECTS_MAX];
};
/** The lists of all subjects in a block, for a blind key. */
RESULT search_select_blind(struct pg *pg, int64_t key, uint64_t block, struct pg_rows **rows_out, struct error *err);
/** The lists of these subjects in these blocks, for a blind key: block, list. In no order. */
struct posting_pairs {
    size_t count;
    int64_t blocks[POSTING_SUBJECTS_MAX], subjects[POSTING_SUBJECTS_MAX];
};
RESULT search_select_pairs(struct pg *pg, int64_t key, const struct posting_pairs *pairs, struct pg_rows **rows_out,
                           struct error *err);
/** The number of entries that the index knows, and that the log has. */
RESULT search_select_known(struct pg *pg, uint64_t *known_out, uint64_t *size_out, struct error *err);
/** The time of an entry. ERROR_NOT_FOUND. */
RESULT search_select_time(struct pg *pg, uint64_t sequence, int64_t *wall_ms_out, struct error *err);
/** The issuers whose subjects may have this name, other than this registry: text. */
RESULT search_select_issuers(struct pg *pg, const char *name, size_t most, struct pg_rows **rows_out, struct error *err);

/* ---- the thread that writes the index ---- */

extern const struct pg_table audit_search_index_table;

/** In a transaction: *is_mine_out false if another gateway is at it. The transaction does not wait for the disk at its end. */
RESULT search_index_begin(struct pg *pg, bool *is_mine_out, uint64_t *indexed_out, uint64_t *size_out, struct error *err);
RESULT search_index_advance(struct pg *pg, uint64_t indexed, struct error *err);
/** The stored lists of these keys in a block, in the order of the keys: key, list. */
RESULT search_index_select(struct pg *pg, uint64_t block, const int64_t *keys, size_t count, struct pg_rows **rows_out,
                           struct error *err);
/** The same for blind keys, by key and subject: key, subject, list. */
RESULT search_index_select_blind(struct pg *pg, uint64_t block, const int64_t *keys, size_t count, struct pg_rows **rows_out,
                                 struct error *err);
struct search_rows {
    uint64_t block;
    size_t count;
    const int64_t *keys;
    const struct bytes *subjects; /* of blind rows; a subject that is erased meanwhile gets no row */
    const struct bytes *lists;
};
/** Writes lists over the stored ones. */
RESULT search_index_put(struct pg *pg, const struct search_rows *rows, struct error *err);
RESULT search_index_put_blind(struct pg *pg, const struct search_rows *rows, struct error *err);
