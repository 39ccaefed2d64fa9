/*
 * audit/log_check_priv.h -- is what the tables hold the log that was signed? Tile by tile, from the bytes of the leaves up.
 *
 * Each tile is bound to the root of a checkpoint by itself, so tiles may be checked in any order, and memory is bounded. What
 * stands beside the leaf in columns, and the numbers under its keys, must be what the leaf says.
 */
#pragma once

#include "audit/format/leaf.h"
#include "audit/log_tiles_priv.h"
#include "audit/signed_checkpoint.h"

/** Statements of the check; the connection needs audit_tree_table, too. */
extern const struct pg_table audit_check_table;

#define LOG_CHECK_KEYS_MAX ((size_t)TILE_WIDTH * LEAF_KEYS_MAX)

struct log_check {
    struct log_tiles tiles;
    uint64_t size; /* of the log whose root is known */
    struct merkle_hash root;
    uint64_t unreadable; /* entries that were signed, and are no events that this program can read */

    /* Of the tile at hand. */
    struct merkle_hash hashes[TILE_WIDTH];
    struct leaf leaf;
    int64_t last_time_ms;
    size_t key_count;
    uint8_t key_ids[LOG_CHECK_KEYS_MAX][LEAF_KEY_ID_SIZE];
    struct bytes keys[LOG_CHECK_KEYS_MAX];
    int64_t sequences[LOG_CHECK_KEYS_MAX], ordinals[LOG_CHECK_KEYS_MAX];
};

/** Half a megabyte: on the heap. `pg` must outlive it. */
RESULT log_check_new(struct pg *pg, struct log_check **check_out, struct error *err);
void log_check_free(struct log_check *check);
DEFINE_OWNED(log_check);
/** From now on against this root. */
void log_check_against(struct log_check *check, uint64_t size, const struct merkle_hash *root);
/** The entries [256 * index, 256 * index + 256), as far as the log goes. ERROR_FORKED says what does not fit. */
RESULT log_check_tile(struct log_check *check, uint64_t index, struct error *err);
/** Who it was, of at most TILE_WIDTH entries: `first` is the first entry whose sealed payload is not what its leaf committed to. */
struct payload_findings {
    uint64_t missing, damaged, first;
    uint64_t facts_missing, facts_damaged, first_facts; /* likewise, of what they were decided on */
};
struct payload_keys {
    struct keyd_client *keyd;
    const char *origin;
};
/**
 * Each payload that a leaf committed to is there, and opens to what was committed to; what does not is counted. That is no change of the
 * log: it may have been erased on purpose. One beside a leaf that committed to none counts as damaged. The facts that the leaves
 * committed to are looked at with them; nobody has a reason to erase those. The connection needs audit_query_table. Adds to *findings, on success only.
 */
RESULT log_check_payloads(struct log_check *check, uint64_t first, uint64_t end, const struct payload_keys *keys,
                          struct payload_findings *findings, struct error *err);
/** No entry, payload or tile stands behind the end of the log as it is now. */
RESULT log_check_end(struct pg *pg, struct error *err);

/**
 * `rows` say for each key how often it occurred, in which entry last (-1: in none), and that entry's leaf. What the next number is must not
 * be read from a row that anybody may have put there: the leaf has to say it. ERROR_FORKED.
 */
RESULT log_check_heads(const struct pg_rows *rows, const struct bytes *keys, size_t count, struct error *err);

struct run_place {
    uint8_t key[LEAF_KEY_ID_SIZE];
    int64_t last;
};
/**
 * The next runs of the key index behind `place`, in its order: each goes on where the one before it ended, and its last
 * event is one that says so. *count_out 0: there are no more.
 */
RESULT log_check_runs(struct log_check *check, struct run_place *place, size_t *count_out, struct error *err);

/**
 * What row `i` of audit_checkpoint (size, note) is worth; none may be over a larger log than the one at hand had when they were
 * read. ERROR_FORKED: signed, and of another log than this one.
 */
RESULT log_check_note(struct log_check *check, const struct note_key *key, const struct pg_rows *rows, size_t i,
                      bool *is_signed_out, struct error *err);

struct note_place {
    int64_t id; /* the table's own number of the row that was read last */
};
#define NOTE_PLACE_FIRST ((struct note_place){.id = INT64_MIN})
/**
 * The next rows of audit_checkpoint behind `place`, likewise; and how many of them mean nothing. Of a row over a larger log than the
 * one at hand only the signature is looked at.
 */
RESULT log_check_notes(struct log_check *check, const struct note_key *key, struct note_place *place, size_t *count_out,
                       uint64_t *strange_out, struct error *err);

/* --- log_check_store.c --- */
RESULT check_load_notes(struct pg *pg, const struct note_place *after, struct pg_rows **rows_out, struct error *err);
RESULT check_load_entries(struct pg *pg, uint64_t first, uint64_t count, struct pg_rows **rows_out, struct error *err);
/** The first entry under one of whose keys the index does not have it with that number; UINT64_MAX: none. */
RESULT check_find_odd_key(struct pg *pg, const struct log_check *check, uint64_t *sequence_out, struct error *err);
/** One row: hashes and root. */
RESULT check_load_tile(struct pg *pg, unsigned level, uint64_t index, struct pg_rows **rows_out, struct error *err);
RESULT check_load_runs(struct pg *pg, const struct run_place *after, uint64_t size, struct pg_rows **rows_out, struct error *err);
RESULT check_load_end(struct pg *pg, bool *has_more_out, struct error *err);
