/*
 * audit/dump_store_priv.h -- the rows of a dump, page by page, in the order of docs/formats/audit-dump.md.
 *
 * All statements of one dump run in one snapshot. Each cursor begins before the first row, and moves to the last row that was read; a page without rows
 * is the end.
 */
#pragma once

#include "audit/format/dump.h"
#include "storage/pg.h"

extern const struct pg_table audit_dump_table;

/** Origin, size, last time, frontier, entries in the index of searches, whether there is more, the database's clock. One row. */
RESULT dump_load_state(struct pg *pg, struct pg_rows **rows_out, struct error *err);
/** Digest and text. `after`: a digest, or nothing. */
RESULT dump_load_facts(struct pg *pg, struct bytes after, struct pg_rows **rows_out, struct error *err);
/** How many pieces of the log are archived. One row. */
RESULT dump_load_archive(struct pg *pg, struct pg_rows **rows_out, struct error *err);
/** Number, time, hash, action, outcome, leaf. */
RESULT dump_load_entries(struct pg *pg, uint64_t first, uint64_t end, struct pg_rows **rows_out, struct error *err);
/** Index, root, hashes of the tiles first <= index < end. */
RESULT dump_load_tiles(struct pg *pg, unsigned level, uint64_t first, uint64_t end, struct pg_rows **rows_out, struct error *err);
/** Number, subject, whether its key is stored, length. */
RESULT dump_load_payloads(struct pg *pg, uint64_t first, uint64_t end, struct pg_rows **rows_out, struct error *err);
/** Size, root, note of the next checkpoints after `size` and `note`, up to the size `until`. */
RESULT dump_load_checkpoints(struct pg *pg, int64_t size, const char *note, int64_t until, struct pg_rows **rows_out,
                             struct error *err);
/** Key, last number, its ordinal, how many there are, and the numbers. */
RESULT dump_load_runs(struct pg *pg, struct bytes key, int64_t last, struct pg_rows **rows_out, struct error *err);
struct dump_post_cursor {
    int64_t key, block, subject;
};
#define DUMP_POST_FIRST ((struct dump_post_cursor){INT64_MIN, INT64_MIN, INT64_MIN})
/** Key, block, list. */
RESULT dump_load_posts(struct pg *pg, const struct dump_post_cursor *after, struct pg_rows **rows_out, struct error *err);
/** Key, block, list, id of the subject, subject. */
RESULT dump_load_blind(struct pg *pg, const struct dump_post_cursor *after, struct pg_rows **rows_out, struct error *err);
/** Id of the repository, tag, name of the repository, digest. */
RESULT dump_load_tags(struct pg *pg, const struct uuid *repository, const char *tag, struct pg_rows **rows_out,
                      struct error *err);
/** Id, role, holder, scope, whether it gives rights now. `after` NULL: from the first on. */
RESULT dump_load_bindings(struct pg *pg, const struct uuid *after, struct pg_rows **rows_out, struct error *err);
/** SCIM's id, state, number of the row. */
RESULT dump_load_persons(struct pg *pg, int64_t after, struct pg_rows **rows_out, struct error *err);
/** Of persons, or of the subjects of their tokens: SCIM's id, whether the row names an event, digest, number of the row. */
RESULT dump_load_told(struct pg *pg, bool links, int64_t after, struct pg_rows **rows_out, struct error *err);
/** Id, digest of the members. `after` NULL: from the first on. */
RESULT dump_load_groups(struct pg *pg, const struct uuid *after, struct pg_rows **rows_out, struct error *err);
