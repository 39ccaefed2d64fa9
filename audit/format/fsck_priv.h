/*
 * audit/format/fsck_priv.h -- the parts of a check of a dump.
 *
 * Rows that stand in other orders than the log (the two indexes) are compared with the leaves by sums: each entry has a sum of keyed hashes of what
 * its leaf leads to, and each row takes its hashes off again. A sum that is not 0 in the end belongs to an entry with a row too few or too many.
 * Nobody who makes the rows knows the key of the hashes, which is drawn anew for each check. So no sort is needed, and no memory for keys.
 */
#pragma once

#include "audit/format/fsck.h"
#include "audit/format/posting.h"
#include "audit/format/search_terms.h"
#include "crypto/hmac.h"

/* Bytes for one entry of the window: two sums, the subject of its sealed part, and marks. */
#define FSCK_ENTRY_BYTES (8 + 8 + 4 + 1)

enum fsck_mark { FSCK_IS_READ = 1, FSCK_HAS_PAYLOAD = 2 };

/** The entries first <= number < end, whose rows are compared in this pass. */
struct fsck_window {
    uint64_t first, end, room; /* room: the most entries */
    bool is_over;              /* all blocks were taken in this pass */
    uint64_t *keys, *terms;    /* sums */
    uint32_t *subjects;        /* hash of the subject; with FSCK_HAS_PAYLOAD */
    uint8_t *marks;
};

/** What a look at one entry found; the texts are in fsck_block.c. */
enum fsck_problem {
    FSCK_SOUND,
    FSCK_MISSING,
    FSCK_HASH,
    FSCK_SEQUENCE,
    FSCK_TIME,
    FSCK_ACTION,
    FSCK_OUTCOME,
    FSCK_TOO_LONG,
    FSCK_EMPTY,
    FSCK_KEPT
};

struct fsck_item {
    size_t at; /* in the text of the block: action, outcome, leaf */
    uint16_t action_length, outcome_length, leaf_length;
    int64_t time_ms; /* as stored beside the leaf */
    int64_t leaf_ms; /* as the leaf has it */
    enum fsck_problem problem;
    bool is_here, is_read, has_payload, lacks_facts;
    bool is_released;   /* its bytes are in the archive alone */
    bool is_about_rows; /* rows outside the log follow from it */
    bool reads_content;
};

/** A tile that ends in the block. */
struct fsck_due {
    unsigned level;
    uint64_t index;
    const struct merkle_hash *hashes;
};
#define FSCK_DUE_MAX (DUMP_BLOCK / TILE_WIDTH + TILE_LEVEL_MAX)

/** The entries of one block, and the tree up to it. */
struct fsck_block {
    uint64_t number;
    size_t count; /* entries that it must have */
    size_t next;  /* the place of the next entry */
    bool is_closed;
    struct buffer text;
    struct fsck_item items[DUMP_BLOCK];
    struct merkle_hash stored[DUMP_BLOCK], hashes[DUMP_BLOCK]; /* beside the leaves, and those that the tree is made of */
    bool has_row[DUMP_BLOCK];                                  /* a sealed part is stored, and its key */
    int64_t payload_next;                                      /* the smallest number that may come */
    struct merkle_frontier before, frontier,
        cursor; /* the tree before the block, and with it; and one that follows checkpoints */
    struct merkle_hash rows[TILE_LEVEL_MAX + 1][TILE_WIDTH]; /* of levels from 1 on: roots of the tiles below */
    struct merkle_hash done[TILE_LEVEL_MAX + 1][TILE_WIDTH]; /* a row that became full in this block */
    size_t row_counts[TILE_LEVEL_MAX + 1];
    struct fsck_due due[FSCK_DUE_MAX];
    size_t due_count, due_at;
    bool is_lost;    /* entries are missing, so no root can be computed any more */
    uint64_t good;   /* the size of the last checkpoint that is sound */
    int64_t last_ms; /* of the last entry that was read */
};

/** Hash tables of what must stand in the rows (fsck_rows.c). */
struct fsck_rows;
RESULT fsck_rows_new(const uint8_t key[TABLE_KEY_SIZE], uint64_t memory, struct fsck_rows **rows_out, struct error *err);
void fsck_rows_free(struct fsck_rows *rows);
DEFINE_OWNED(fsck_rows);
/** Whether tags, bindings or reports of unwraps depend on an event with this action. */
bool fsck_rows_need(const char *action, const char *outcome) __attribute__((nonnull));
struct fsck;
RESULT fsck_rows_event(struct fsck *fsck, const struct leaf *leaf, struct error *err) __attribute__((nonnull));
void fsck_rows_tag(struct fsck *fsck, const struct dump_tag *tag) __attribute__((nonnull));
void fsck_rows_binding(struct fsck *fsck, const struct dump_binding *binding) __attribute__((nonnull));
/** The sealed part of an entry is missing, which only an erasure of its actor explains. */
RESULT fsck_rows_lack(struct fsck *fsck, uint64_t number, struct bytes actor, struct error *err) __attribute__((nonnull(1, 4)));
void fsck_rows_end(struct fsck *fsck) __attribute__((nonnull));
/** Whether the events are complete: in the last window. */
bool fsck_is_in_last_pass(const struct fsck *fsck) __attribute__((nonnull));

/* Persons and groups that SCIM has provisioned (fsck_persons.c). */
struct fsck_slot;
bool fsck_persons_need(const char *action, const char *outcome) __attribute__((nonnull));
RESULT fsck_persons_event(struct fsck *fsck, const struct leaf *leaf, struct error *err) __attribute__((nonnull));
void fsck_persons_row(struct fsck *fsck, const struct dump_person *person) __attribute__((nonnull));
/** A token tells a person of SCIM. */
bool fsck_persons_tell(const struct leaf_target *target, const char *outcome) __attribute__((nonnull));
void fsck_identity_row(struct fsck *fsck, const struct dump_told *told) __attribute__((nonnull));
void fsck_link_row(struct fsck *fsck, const struct dump_told *told) __attribute__((nonnull));
void fsck_groups_row(struct fsck *fsck, const struct dump_group *group) __attribute__((nonnull));
/** At the end, of each slot. */
void fsck_persons_judge(struct fsck *fsck, const struct fsck_slot *slot) __attribute__((nonnull));

/** Digests of the facts that are stored, as keyed hashes. */
struct fsck_facts {
    size_t count, room; /* room: a power of two */
    uint64_t *hashes;   /* 0: free */
};

struct fsck {
    struct log_keys keys;
    struct fsck_options options;
    uint8_t secret[TABLE_KEY_SIZE];
    struct dump_reader *reader;
    struct fsck_report report;
    struct fsck_window window;
    struct fsck_facts facts;
    struct fsck_rows *rows;
    struct fsck_block *block;
    bool has_head;
    uint64_t seen;         /* one more than the last entry that came in the first pass: no window goes further */
    struct dump_head head; /* of the first pass; the frontier is in `stored` */
    struct merkle_frontier stored;
    int64_t unsigned_ms; /* time of the first entry that no checkpoint so far covers */
    uint64_t archived;   /* all entries before this number are archived, as the dump says */
    /* Of the index by key. */
    bool has_key;
    uint8_t run_key[LEAF_KEY_ID_SIZE];
    int64_t run_last, run_ordinal;
    struct merkle_frontier heads;
    /* Of the index of searches, and of addresses. */
    bool has_post, has_blind;
    struct dump_post post, blind; /* the last ones; without views */
    uint8_t facts_digest[LEAF_FACTS_DIGEST];
};

/* --- fsck_find.c --- */
/** Whether this is the first pass. Rows that need no window are checked there alone. */
bool fsck_is_first(const struct fsck *fsck) __attribute__((nonnull));
bool fsck_in_window(const struct fsck *fsck, uint64_t number) __attribute__((nonnull));
/** Notes a finding. */
void fsck_find(struct fsck *fsck, enum fsck_kind kind, uint64_t number, const char *format, ...)
    __attribute__((nonnull, format(printf, 4, 5)));

/* --- fsck_block.c: entries, and the tree up to each block --- */
RESULT fsck_take_entry(struct fsck *fsck, const struct dump_entry *entry, struct error *err) __attribute__((nonnull));
/** Goes on to this block. ERROR_INVALID if it is behind. */
RESULT fsck_advance(struct fsck *fsck, uint64_t block, struct error *err) __attribute__((nonnull));
/** Computes the tree with the entries of the block, once. */
RESULT fsck_close_entries(struct fsck *fsck, struct error *err) __attribute__((nonnull));
/** After the last block. */
RESULT fsck_end_blocks(struct fsck *fsck, struct error *err) __attribute__((nonnull));

/* --- fsck_look.c: what can be said of one entry alone; in several threads --- */
RESULT fsck_look_all(struct fsck *fsck, struct error *err) __attribute__((nonnull));

/* --- fsck_tree.c: tiles, sealed parts and checkpoints of a block --- */
void fsck_begin_tiles(struct fsck *fsck) __attribute__((nonnull));
/** The block that a record of an entry, a tile, a sealed part or a checkpoint belongs to; ERROR_INVALID if the log has no such one. */
RESULT fsck_block_of(const struct fsck *fsck, const struct dump_record *record, uint64_t *block_out, bool *has_block_out,
                     struct error *err) __attribute__((nonnull));
RESULT fsck_take_tile(struct fsck *fsck, const struct dump_tile *tile, struct error *err) __attribute__((nonnull));
void fsck_end_tiles(struct fsck *fsck) __attribute__((nonnull));
RESULT fsck_take_payload(struct fsck *fsck, const struct dump_payload *payload, struct error *err) __attribute__((nonnull));
RESULT fsck_end_payloads(struct fsck *fsck, struct error *err) __attribute__((nonnull));
void fsck_take_checkpoint(struct fsck *fsck, const struct dump_checkpoint *checkpoint) __attribute__((nonnull));

/* --- fsck_index.c --- */
RESULT fsck_take_facts(struct fsck *fsck, const struct dump_facts *facts, struct error *err) __attribute__((nonnull));
bool fsck_has_facts(const struct fsck *fsck, const uint8_t digest[LEAF_FACTS_DIGEST]) __attribute__((nonnull));
/** Adds what the leaf leads to, to the sums of entry `number`, which is in the window. */
void fsck_add_sums(struct fsck *fsck, uint64_t number, const struct leaf *leaf) __attribute__((nonnull));
RESULT fsck_take_run(struct fsck *fsck, const struct dump_run *run, struct error *err) __attribute__((nonnull));
RESULT fsck_take_post(struct fsck *fsck, const struct dump_post *post, struct error *err) __attribute__((nonnull));
RESULT fsck_take_blind(struct fsck *fsck, const struct dump_post *post, struct error *err) __attribute__((nonnull));
void fsck_end_indexes(struct fsck *fsck) __attribute__((nonnull));
