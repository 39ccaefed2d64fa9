/*
 * audit/audit_store.h -- the tables of the log (migrations/0002_audit.sql).
 *
 * There are three tables of statements, one for each kind of connection: appending (the sequencer), signing, and reading.
 * Each function runs a statement or two; the callers give the results their meaning.
 */
#pragma once

#include "audit/format/merkle.h"
#include "audit/query.h"
#include "audit/signed_checkpoint.h"
#include "storage/pg.h"

extern const struct pg_table audit_append_table;

/* --- uses of exceptions, which the statements of audit_append_table count --- */
struct exception_use;
RESULT audit_use_is_left(struct pg *pg, const struct exception_use *use, bool *is_left_out, struct error *err);
/** The number of this use, from 1. The last one raises the authorization epoch. ERROR_CONFLICT: none is left. */
RESULT audit_use_take(struct pg *pg, const struct exception_use *use, uint64_t *number_out, struct error *err);

extern const struct pg_table audit_sign_table;
extern const struct pg_table audit_subject_table;

/** The state that an append starts from, read under the log's lock. */
struct audit_state {
    uint64_t size;
    int64_t epoch, last_time_ms, now_ms;
    uint64_t authorization_epoch;
    uint64_t altered; /* the size after the last append with a change that invalidates what readers have cached */
    struct merkle_frontier frontier;
    char origin[128];
};

/** The keys of the events that will be appended, and how often each has occurred so far. */
struct audit_heads {
    size_t count;
    const struct bytes *keys;
    int64_t *ordinals; /* `count` of them, filled in by audit_begin() */
};
/** The organisations that the decisions depend on, and the authorization epoch of the last change in each. audit_begin() fills it
 *  in. */
struct audit_rights {
    size_t count;
    const struct bytes *organisations; /* ids */
    uint64_t *epochs;                  /* 0: nothing was ever changed */
    uint64_t *taken;                   /* the same without the changes that only gave a role */
};
/**
 * One round trip: BEGIN, the lock of the epoch (exclusive or shared), the lock of the log, the state and the heads. After a
 * failure the transaction may be open.
 */
RESULT audit_begin(struct pg *pg, bool exclusive_epoch, const struct audit_heads *heads, const struct audit_rights *rights,
                   struct audit_state *state_out, struct error *err);
/** The heads alone, in the transaction that audit_begin() began. */
RESULT audit_load_heads(struct pg *pg, const struct audit_heads *heads, struct error *err);
/** Persons whose keys were ever destroyed; the row of each stays for ever. */
RESULT audit_count_erasures(struct pg *pg, int64_t *count_out, struct error *err);

/** All that one append writes. The arrays belong to the caller. */
struct audit_append {
    uint64_t old_size, count;
    int64_t epoch, time_ms;
    bool alters;
    struct bytes frontier;                                    /* of the new size */
    const struct bytes *leaves, *hashes, *actions, *outcomes; /* `count` of each */
    size_t key_count;                                         /* one for each key of an event */
    const struct bytes *keys;
    const int64_t *ordinals;        /* of the last event under each key, counted from 1 */
    const int64_t *firsts, *untils; /* the key's events: a range of `sequences`, counted from 1 */
    size_t sequence_count;          /* one for each event and key, key by key */
    const int64_t *sequences;
    size_t payload_count;
    const int64_t *payload_sequences;
    const struct bytes *payload_subjects, *payload_salts, *payload_boxes;
    size_t facts_count; /* facts that this gateway has not stored yet; an existing row stays as it is */
    const struct bytes *facts_digests, *facts;
    size_t tile_count;
    const int64_t *tile_levels, *tile_indices;
    const struct bytes *tile_hashes, *tile_roots;
};
/** Writes the rows if the fence holds, and commits, in one round trip. ERROR_UNCERTAIN as pg_commit(). */
RESULT audit_commit(struct pg *pg, const struct audit_append *append, struct error *err);

/**
 * The whole append in one round trip, from BEGIN to COMMIT, for a caller that has the state of audit_begin() in its cache.
 * audit_open_in_one_trip() adds BEGIN, the locks, the fence and the rows to a pipeline. The caller then adds one
 * statement for each of `trip->change_count` changes. audit_close_in_one_trip() adds tiles and COMMIT, and runs it all.
 */
struct audit_fence {      /* conditions under which no decision of the group is stale */
    bool excludes;        /* the lock of the epoch is exclusive: a change raises it */
    uint64_t from, until; /* the authorization epoch is between these two, or equal to one of them */
    uint64_t oldest;      /* no change in these organisations is newer than this epoch */
    bool ignores_grants;  /* but for changes that only gave a role */
    size_t count;
    const struct bytes *organisations;
};
RESULT audit_open_in_one_trip(struct pg *pg, const struct audit_append *append, const struct audit_fence *fence,
                              struct error *err);
#define AUDIT_CHANGES_IN_ONE_TRIP 64
struct audit_trip {
    size_t change_count;
    struct pg_rows *answers[AUDIT_CHANGES_IN_ONE_TRIP]; /* of the changes */
    uint64_t authorization_epoch;                       /* under the lock, before the changes */
    /** Size or epoch differ, the fence does not hold, or a change raised an error: the transaction is open, and must be rolled back. */
    bool is_refused;
};
/** Sets trip->is_refused in any case, and the rest of it on success. */
RESULT audit_close_in_one_trip(struct pg *pg, const struct audit_append *append, struct audit_trip *trip, struct error *err);

/**
 * Whether entry `sequence` is stored, with this hash. First ends the PostgreSQL backend that was sent the entry and takes
 * the log's lock, so that no append is still running.
 */
RESULT audit_has_entry(struct pg *pg, const struct pg_backend *backend, uint64_t sequence, const struct merkle_hash *hash,
                       bool *has_out, struct error *err);
/** One row with the bytes of the entry, or no row. */
RESULT audit_entry_leaf(struct pg *pg, uint64_t sequence, struct pg_rows **rows_out, struct error *err);
RESULT audit_next_boot(struct pg *pg, uint64_t *boot_out, struct error *err);
/** Gives the log its name, once. ERROR_CORRUPT if it has another name already. */
RESULT audit_name_log(struct pg *pg, const char *origin, struct error *err);
RESULT audit_ensure_partition(struct pg *pg, uint64_t number, struct error *err);

/** Hashes of entries, and roots of full tiles: exactly `count`, or ERROR_FORKED. */
RESULT audit_load_leaf_hashes(struct pg *pg, uint64_t first, size_t count, struct merkle_hash *hashes_out, struct error *err);
RESULT audit_load_tile_roots(struct pg *pg, unsigned level, uint64_t first, size_t count, struct merkle_hash *hashes_out,
                             struct error *err);
/** The 256 hashes of a full tile. */
RESULT audit_load_tile(struct pg *pg, unsigned level, uint64_t index, struct merkle_hash *hashes_out, struct error *err);

/** The state that the signer starts from. */
struct audit_signing_state {
    struct merkle_frontier frontier;
    int64_t now_ms, last_time_ms;
};
RESULT audit_signing_state(struct pg *pg, struct audit_signing_state *state_out, struct error *err);
/** Origin, size and last time of the log; no row when the state is missing. */
RESULT audit_read_head(struct pg *pg, struct pg_rows **rows_out, struct error *err);
/** A few rows (size and note) of checkpoints over logs of at least `size` events, newest first. The notes are not
 *  verified: anybody with an INSERT may have written them. */
RESULT audit_checkpoints_from(struct pg *pg, uint64_t size, struct pg_rows **rows_out, struct error *err);
RESULT audit_store_checkpoint(struct pg *pg, uint64_t size, const struct merkle_hash *root, const char *note, struct error *err);
/** Stores the checkpoint again if no row has it. */
RESULT audit_keep_checkpoint(struct pg *pg, const struct signed_checkpoint *checkpoint, bool *was_missing_out, struct error *err);

/** ERROR_NOT_FOUND. The view lives as long as *rows_out. */
struct audit_subject_row {
    int32_t key_version;
    struct bytes wrapped_key;
};
RESULT audit_subject_find(struct pg *pg, const uint8_t index[32], struct audit_subject_row *row_out, struct pg_rows **rows_out,
                          struct error *err);
/** Does nothing if the row exists. */
RESULT audit_subject_insert(struct pg *pg, const uint8_t index[32], const struct audit_subject_row *row, struct error *err);
