/*
 * audit/log_check_priv.h -- checks that the tables hold the signed log: tile by tile, from the bytes of the leaves up to the
 * root.
 *
 * Each tile is compared with the root of a checkpoint, independently of other tiles. So tiles may be checked in any order, and
 * memory is bounded. The columns beside a leaf, and the ordinals of its keys, must have the leaf's own values.
 */
#pragma once

#include "audit/archive_priv.h"
#include "audit/format/leaf.h"
#include "audit/format/search_terms.h"
#include "audit/log_tiles_priv.h"
#include "audit/query.h"
#include "audit/signed_checkpoint.h"

/** Statements of the check; its connection needs audit_tree_table too. */
extern const struct pg_table audit_check_table;

#define LOG_CHECK_KEYS_MAX ((size_t)TILE_WIDTH * LEAF_KEYS_MAX)

struct log_check {
    struct log_tiles tiles;
    uint64_t size; /* of the log whose root is known */
    struct merkle_hash root;
    uint64_t unreadable;                /* signed entries that this program can't read as events */
    const struct rights_cursor *rights; /* while rights are checked */
    bool looks_without_index;
    bool takes_completed; /* events that say that something was done count, and not those that allowed it */
    uint64_t looks_after; /* check_find_last() may leave out the blocks before this entry's */

    /* Of the tile that is being checked. */
    struct archived_leaves *archived; /* leaves that are not in the rows; kept for the other checks of this tile */
    struct merkle_hash hashes[TILE_WIDTH];
    struct leaf leaf;
    int64_t last_time_ms;
    size_t key_count;
    uint8_t key_ids[LOG_CHECK_KEYS_MAX][LEAF_KEY_ID_SIZE];
    struct bytes keys[LOG_CHECK_KEYS_MAX];
    int64_t sequences[LOG_CHECK_KEYS_MAX], ordinals[LOG_CHECK_KEYS_MAX];
};

/** Allocates half a megabyte. `pg` must outlive it. */
RESULT log_check_new(struct pg *pg, struct log_check **check_out, struct error *err);
void log_check_free(struct log_check *check);
DEFINE_OWNED(log_check);
/** The following checks compare with this size and root. */
void log_check_against(struct log_check *check, uint64_t size, const struct merkle_hash *root);
/** Checks the entries [256 * index, 256 * index + 256), or up to the end of the log. ERROR_FORKED names the difference. */
RESULT log_check_tile(struct log_check *check, uint64_t index, struct error *err);
/** Payloads that do not match their leaves, in a range of at most TILE_WIDTH entries; `first` is the first such entry. */
struct payload_findings {
    uint64_t missing, damaged, first;
    uint64_t facts_missing, facts_damaged, first_facts; /* the same for facts */
    uint64_t hidden, first_hidden; /* entries that the index of addresses, networks and countries does not find */
    char erased[65];               /* the last pseudonym whose erasure the log has recorded */
};
struct payload_keys {
    struct keyd_client *keyd;
    const char *origin;
    bool with_index; /* of a whole tile: the index of addresses is compared, too */
};
/**
 * Checks each payload that a leaf commits to: it must be stored, and its decrypted text must match the commitment. Counts payloads
 * that fail. A missing payload is no change of the log. It is not counted if the log has the event that erased its actor (audit/erasure.h). A
 * payload beside a leaf without a commitment counts as damaged. Checks the facts that the leaves commit to as well; nobody erases facts on
 * purpose. The connection needs audit_query_table, audit_erasure_table and audit_subject_table. With `with_index` calls log_check_blind().
 * Adds to *findings, on success only.
 */
RESULT log_check_payloads(struct log_check *check, uint64_t first, uint64_t end, const struct payload_keys *keys,
                          struct payload_findings *findings, struct error *err);
/**
 * Checks that the index of addresses, networks and countries has each entry of the page under what its sealed part and its facts say, as far as the index says that it goes. Only
 * who opens sealed parts can check this. The facts of the page are loaded, and all its entries are of one tile. Adds to findings->hidden.
 */
RESULT log_check_blind(struct log_check *check, struct audit_page *page, const struct payload_keys *keys,
                       struct payload_findings *findings, struct error *err);
/** Whether the log has recorded the erasure of this entry's actor. `erased` is the last such person, because all events of one are alike. */
RESULT check_is_erased(struct pg *pg, const struct audit_page *page, size_t index, char erased[65], bool *is_erased_out,
                       struct error *err);
/** Entries that the index of searches does not find by one of their words. */
struct term_findings {
    uint64_t missing, first;
};
/**
 * Checks the index of searches for the entries of this tile, as far as the index says that it goes. The index only hints, and its owner may empty it at any
 * time, so a missing row is no change of the log. Adds to *findings, on success only.
 */
RESULT log_check_terms(struct log_check *check, uint64_t index, struct term_findings *findings, struct error *err);
/** Checks that no entry, payload or tile is stored beyond the present end of the log. */
RESULT log_check_end(struct pg *pg, struct error *err);

/**
 * `rows` hold for each key how often it occurred, the last entry with it (-1: none), and that entry's leaf. The application
 * may have been bypassed to write a row, so the leaf itself must state the last ordinal. ERROR_FORKED if it states another.
 */
RESULT log_check_heads(const struct pg_rows *rows, const struct bytes *keys, size_t count, struct error *err);

struct run_cursor {
    uint8_t key[LEAF_KEY_ID_SIZE];
    int64_t last;
};
/**
 * Checks the next runs of the key index after `cursor`, in the order of the index. Each run must go on where the previous
 * one ended, and its last event must have the key and the ordinal. *count_out is 0 when there are no more.
 */
RESULT log_check_runs(struct log_check *check, struct run_cursor *cursor, size_t *count_out, struct error *err);

/**
 * Checks row `i` of audit_checkpoint (size, note). No row may state a larger size than the checked log had when the rows were
 * read. *is_signed_out is false for a row that keyd has not signed. ERROR_FORKED: keyd signed the row for another log than
 * this one.
 */
RESULT log_check_note(struct log_check *check, const struct log_keys *keys, const struct pg_rows *rows, size_t i,
                      bool *is_signed_out, struct error *err);

struct note_cursor {
    int64_t id; /* of the row that was read last */
};
#define NOTE_CURSOR_FIRST ((struct note_cursor){.id = INT64_MIN})
/**
 * Checks the next rows of audit_checkpoint after `cursor` in the same way, and counts in *foreign_out the rows that keyd
 * has not signed. If a row states a larger size than the checked log has, only its signature is verified.
 */
RESULT log_check_notes(struct log_check *check, const struct log_keys *keys, struct note_cursor *cursor, size_t *count_out,
                       uint64_t *foreign_out, struct error *err);

/** Rows that events do not lead to. */
struct row_findings {
    uint64_t count;
    uint64_t untold; /* about persons of SCIM, and groups of logins, from an earlier version */
    char first[400]; /* what it was: a name and a fault */
};
struct tag_cursor {
    struct uuid repository;
    char tag[129]; /* the longest has 128 bytes */
};
struct binding_cursor {
    bool has_begun;
    struct uuid id;
};
/**
 * Checks the next tags after `cursor`: each must name the manifest of its last push, and no later event may have deleted it. Events are found by the index of
 * searches. A row that differs waits for the index for two seconds, and is left to the next round if the index is still behind. Adds to *findings. *count_out is 0 when there are no more.
 */
RESULT log_check_tags(struct log_check *check, struct tag_cursor *cursor, size_t *count_out, struct row_findings *findings,
                      struct error *err);
/**
 * The same for the bindings that give rights now: an event has granted each, with this subject and end, and none has ended it. Gateways believe such a row no longer.
 */
RESULT log_check_bindings(struct log_check *check, struct binding_cursor *cursor, size_t *count_out,
                          struct row_findings *findings, struct error *err);

struct rights_cursor {
    struct sequencer *sequencer; /* records each doubt */
    struct binding_cursor binding, robot;
    bool has_robots; /* the bindings are done */
};
/**
 * The bindings, and then the robots that may come in: the newest event of each tells its secret, and the one before the secret that it replaced. At the end counts the rows
 * of logins' groups that events tell otherwise; those give nothing (authz/group_login.h).
 */
RESULT log_check_rights(struct log_check *check, struct rights_cursor *cursor, size_t *count_out, struct row_findings *findings,
                        struct error *err);

struct scim_cursor {
    int64_t person, link; /* the numbers of the last rows */
    bool has_link;
    bool has_group;
    struct uuid group;
};
#define SCIM_CURSOR_FIRST ((struct scim_cursor){.person = INT64_MIN, .link = INT64_MIN})
/**
 * The same for what SCIM has provisioned: each person has the state and the externalId, then each subject of tokens the person, and then each group the members, that
 * the last event about it has told (docs/scim.md). Adds to findings->untold the rows of an earlier version that no event tells.
 */
RESULT log_check_persons(struct log_check *check, struct scim_cursor *cursor, size_t *count_out, struct row_findings *findings,
                         struct error *err);
/** The subjects of tokens alone (log_check_tellings.c). */
RESULT log_check_links(struct log_check *check, struct scim_cursor *cursor, size_t *count_out, struct row_findings *findings,
                       struct error *err);

/**
 * Checks what the entries of a tile tell of the rows of SCIM: what each says of the time before it is what the event before had left (by audit/format/scim_told.h, as
 * fsck does), and the rows that it made are still there, or it was told that they went.
 */
RESULT log_check_tellings(struct log_check *check, uint64_t index, struct row_findings *findings, struct error *err);

/**
 * Checks that the tags and bindings which the entries of a tile have made are stored, unless a later event has removed or ended them (by the same events as fsck).
 */
RESULT log_check_removed(struct log_check *check, uint64_t index, struct row_findings *findings, struct error *err);

/* --- events by their words, for rows that are not signed (log_check_rows.c) --- */
struct check_wanted {
    const char *action;
    const char *name; /* of the resource; NULL: any */
    enum search_field field;
    const char *word; /* of the detail */
    const char *also; /* another word of it; NULL: any */
    uint64_t before;  /* only entries before this number; 0: all */
};
struct check_found {
    bool is_found;
    uint64_t sequence;
    bool is_of_system;
    int64_t time_ms;
    char detail[LEAF_RESOURCE_MAX + 1];
};
/** The last event of this kind, by the index of searches. */
RESULT check_find_last(struct log_check *check, const struct check_wanted *wanted, struct check_found *found, struct error *err);
/** The same without the index of searches: reads the actions of the whole log. */
RESULT check_find_without_index(struct log_check *check, const struct check_wanted *wanted, struct check_found *found,
                                struct error *err);
/** Sets *found if the entry is the wanted event. */
RESULT check_look_at(struct log_check *check, uint64_t sequence, const struct check_wanted *wanted, struct check_found *found,
                     struct error *err);
/** A word of a detail, from 0 on; "" if it has fewer. */
const char *check_word_at(const char *detail, unsigned place, char *word, size_t room);
/** What follows this beginning of a word of a detail; NULL: no word begins so. A view up to the next blank. */
const char *check_word_after(const char *detail, const char *begins);
/** Whether the event tells this end of a row (0: none), give or take a minute. One of an earlier version tells none, so it tells any. */
bool check_end_is_told(const struct check_found *found, int64_t end_ms);
/** Whether the robot was revoked, or was the administrator that the server made, and another one took its place. */
RESULT check_is_ended(struct log_check *check, const char *robot, bool *is_ended_out, struct error *err);
/** check_note_row() for a role or a robot, which gateways believe no longer then: an event tells so first. */
RESULT check_doubt(struct log_check *check, struct row_findings *findings, const char *kind, const struct uuid *id,
                   const char *fault, struct error *err);
/** Waits until the index has all events that are there now, as it mostly has within a second. */
RESULT check_await_index(struct log_check *check, bool *is_there_out, struct error *err);
void check_note_row(struct row_findings *findings, const char *kind, const char *name, const char *fault);

/* --- log_check_store.c --- */
RESULT check_load_notes(struct pg *pg, const struct note_cursor *after, struct pg_rows **rows_out, struct error *err);
#define CHECK_LEAF_COLUMN 2 /* of its rows */
RESULT check_load_entries(struct pg *pg, uint64_t first, uint64_t count, struct pg_rows **rows_out, struct error *err);
/** The first entry with a key that the index lacks, or has with another ordinal; UINT64_MAX: none. */
RESULT check_find_unexpected_key(struct pg *pg, const struct log_check *check, uint64_t *sequence_out, struct error *err);
/** One row: the hashes and the root. */
RESULT check_load_tile(struct pg *pg, unsigned level, uint64_t index, struct pg_rows **rows_out, struct error *err);
RESULT check_load_runs(struct pg *pg, const struct run_cursor *after, uint64_t size, struct pg_rows **rows_out,
                       struct error *err);
RESULT check_load_end(struct pg *pg, bool *has_more_out, struct error *err);
/** The number of entries that the index of searches has. */
RESULT check_load_indexed(struct pg *pg, uint64_t *indexed_out, struct error *err);
/** Key and list of those keys that the block has, in the order of keys. */
RESULT check_load_posts(struct pg *pg, uint64_t block, const int64_t *keys, size_t count, struct pg_rows **rows_out,
                        struct error *err);
/** Key, subject and list of those keys that the block has in the index of addresses, in the order of keys and subjects. */
RESULT check_load_blind(struct pg *pg, uint64_t block, const int64_t *keys, size_t count, struct pg_rows **rows_out,
                        struct error *err);
RESULT check_load_size(struct pg *pg, uint64_t *size_out, struct error *err);
/** Id of the repository, tag, name of the repository, digest. */
RESULT check_load_tags(struct pg *pg, const struct tag_cursor *after, struct pg_rows **rows_out, struct error *err);
/** The digest of one tag; no row if there is no such tag. */
RESULT check_load_tag(struct pg *pg, const struct uuid *repository, const char *tag, struct pg_rows **rows_out,
                      struct error *err);
/** Whether it is a role or a robot that gateways believe. */
RESULT check_load_believed(struct pg *pg, const struct uuid *id, bool *is_believed_out, struct error *err);
/** A row that is not what events tell; `sequence` is of the event that doubts it. */
RESULT check_doubt_row(struct pg *pg, const struct uuid *id, uint64_t sequence, struct error *err);
#define CHECK_LIKELY_MAX 64
/** The newest CHECK_LIKELY_MAX entries of a range that may be the wanted event, by what their bytes hold; newest first. */
RESULT check_load_likely(struct pg *pg, const struct check_wanted *wanted, uint64_t first, uint64_t end,
                         struct pg_rows **rows_out, struct error *err);
/** Id and digests of both secrets of robots that may come in; of one robot, if `only` is not NULL. */
RESULT check_load_robots(struct pg *pg, const struct binding_cursor *after, const struct uuid *only, struct pg_rows **rows_out,
                         struct error *err);
/** The rows of logins' groups that name an event which does not tell them, and those that name none. */
RESULT check_load_logins(struct pg *pg, struct pg_rows **rows_out, struct error *err);
/** Id, role, holder, scope, digest of the subject, end of bindings that give rights. */
RESULT check_load_bindings(struct pg *pg, const struct binding_cursor *after, struct pg_rows **rows_out, struct error *err);
/** Whether a binding gives rights. */
RESULT check_load_live(struct pg *pg, const struct uuid *id, bool *is_live_out, struct error *err);
/** Block and the lists of three keys, of the newest blocks before `before` that have all of them. */
RESULT check_load_blocks(struct pg *pg, const int64_t keys[3], int64_t before, struct pg_rows **rows_out, struct error *err);
/** Number of the row, SCIM's id, state (audit/format/scim_state.h), whether it names an event, digest of the externalId. */
RESULT check_load_persons(struct pg *pg, int64_t after, struct pg_rows **rows_out, struct error *err);
/** Number of the row, SCIM's id of the person, number of the event or NULL, digest. */
RESULT check_load_links(struct pg *pg, int64_t after, struct pg_rows **rows_out, struct error *err);
RESULT check_load_link(struct pg *pg, int64_t number, struct pg_rows **rows_out, struct error *err);
/** The rows that name this event. */
RESULT check_load_link_of(struct pg *pg, uint64_t entry, struct pg_rows **rows_out, struct error *err);
/** Number, time and leaf of the entries first <= number < end that tell of rows of SCIM. */
RESULT check_load_tellings(struct pg *pg, uint64_t first, uint64_t end, struct pg_rows **rows_out, struct error *err);
/** Number, time and leaf of the entries first <= number < end that have made tags or bindings. */
RESULT check_load_makers(struct pg *pg, uint64_t first, uint64_t end, struct pg_rows **rows_out, struct error *err);
/** The places, from 1 on, of what is not stored: tags of repositories; bindings by their ids, which must be UUIDs. */
RESULT check_load_removed_tags(struct pg *pg, const struct bytes *repositories, const struct bytes *tags, size_t count,
                               struct pg_rows **rows_out, struct error *err);
RESULT check_load_removed_bindings(struct pg *pg, const struct bytes *ids, size_t count, struct pg_rows **rows_out,
                                   struct error *err);
/** The state of one person, whether its row names an event, digest of the externalId; no row if there is no such person. */
RESULT check_load_person(struct pg *pg, const struct uuid *id, struct pg_rows **rows_out, struct error *err);
/** Id, digest of the members. `after` NULL: from the first on. */
RESULT check_load_groups(struct pg *pg, const struct uuid *after, struct pg_rows **rows_out, struct error *err);
/** The digest of one group; no row if there is no such group. */
RESULT check_load_group(struct pg *pg, const struct uuid *id, struct pg_rows **rows_out, struct error *err);
