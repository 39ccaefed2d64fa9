/*
 * audit/archive.h -- entries of the log whose bytes are in a region (migrations/0081_archived_entries.sql).
 *
 * A piece is PIECE_ENTRIES entries, as one sealed object: the length of each entry, 2 bytes, then the entries. Its key is the key of a subject of
 * the log (audit/subject_priv.h). The rows of the entries stay, with their hashes; only the leaf may be empty, and is then read from the piece.
 * Whoever reads an entry compares it with its hash, so what a store answers is never trusted.
 */
#pragma once

#include "audit/permit.h"
#include "audit/sequencer.h"
#include "audit/signed_checkpoint.h"
#include "crypto/secret.h"
#include "storage/blob_content.h"
#include "storage/pg.h"

struct keyd_client;

extern const struct pg_table audit_archive_table, audit_check_table;

#define ARCHIVE_PIECE      4096 /* entries; a multiple of a tile */
#define ARCHIVE_PIECES_MAX 8    /* that one change notes */

/** Where a piece is. */
struct archive_place {
    char region[REGION_ID_MAX + 1];
    struct uuid blob;
    struct blob_content content;
};

/** A part of a piece's content: exactly `length` bytes are read. */
struct archive_range {
    uint64_t offset;
    size_t length;
    uint8_t *into;
};

/** The objects of regions, for one thread at a time; each function may block. */
struct archive_store {
    void *context;
    struct result (*write)(void *context, const char *region, const struct secret *key, struct bytes content,
                           struct archive_place *place_out, struct error *err);
    /** An object that no row names. */
    struct result (*remove)(void *context, const struct archive_place *place, struct error *err);
    /** ERROR_CORRUPT: the object is damaged or missing. ERROR_UNAVAILABLE: it can't be read now. */
    struct result (*read)(void *context, const struct archive_place *place, const struct secret *key,
                          const struct archive_range *range, struct error *err);
    struct keyd_client *keyd;
};
/** The stores that all readers of this process use; NULL: none. Call it before the first reader starts and after the last one has ended. */
void archive_use(const struct archive_store *store);

/** The first entry that was recorded at this time or later. Connections need audit_search_table. */
RESULT archive_entry_at(const struct permit *permit, struct pg *pg, int64_t wall_ms, uint64_t size, uint64_t *number_out,
                        struct error *err) __attribute__((nonnull));

struct archive_step {
    uint64_t before; /* entries from this number on are left out */
    uint64_t pieces; /* at most so many, and at most ARCHIVE_PIECES_MAX */
    const struct signed_checkpoint *newest;
};
struct archive_progress {
    uint64_t archived; /* pieces that this call has written */
    uint64_t next;     /* the first entry that is in no piece, once they are noted */
    bool is_done;      /* no whole piece is left before `before` */
};
/** A change: notes the pieces that archive_run() has written. Its event is decided again under the epoch of the commit, so what a newer policy set forbids is not noted. */
struct archive_commit {
    struct change change;
    size_t count;
    uint64_t first, sequence;                        /* the number of the first piece; of the event that began it */
    struct archive_place places[ARCHIVE_PIECES_MAX]; /* one behind the other */
};
/**
 * Writes the next pieces: each one is written, read back, and compared with the entries and these with the tree. They count once the commit is recorded; if that is refused, call archive_drop(). A piece that can't
 * be written ends the call, without an error if earlier ones could. The permit is for audit.archive, and has the region. Connections need audit_archive_table, audit_check_table, audit_tree_table, audit_subject_table
 * and published_table.
 */
RESULT archive_run(const struct permit *permit, struct pg *pg, const struct archive_step *step, struct archive_commit *commit_out,
                   struct archive_progress *progress_out, struct error *err) __attribute__((nonnull));
/** Removes the objects of a commit that was refused; never after one whose fate is not known. */
void archive_drop(const struct archive_commit *commit) __attribute__((nonnull));
