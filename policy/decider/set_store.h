/*
 * policy/decider/set_store.h -- policy sets among the rows of the table document, and rows of the table stored_label.
 *
 * A process with the application's database role may add any number of rows to document. So every search begins
 * with the few events policy.load of the log and finds rows by the content of these events. Rows that no event names
 * cost no time.
 */
#pragma once

#include "documents/document_store.h"
#include "policy/decider/set_install.h" /* policy_set_table */
#include "storage/lookup.h"
#include "storage/pg.h"

/** Appends the document, unless it is there, and raises the authorization epoch. */
RESULT policy_set_insert(const struct permit *permit, struct pg *pg, const struct document_row *row, struct error *err)
    __attribute__((nonnull));

/** What sijil-keyd has pinned of a set. */
struct policy_set_row {
    uint64_t epoch;
    const uint8_t *digest; /* 32 bytes */
};

#define POLICY_SETS_READ 16 /* in one query: envelopes have up to 2 MiB */
/**
 * Events policy.load of the log from number `first` on, oldest first, at most POLICY_SETS_READ. Columns: number,
 * leaf, and the envelope that the event names, or "" if it is not stored or has an epoch below `least`.
 */
RESULT policy_set_events(struct pg *pg, uint64_t least, uint64_t first, struct pg_rows **rows_out, struct error *err);
/**
 * Number and envelope of loaded sets with the epoch and the digest of `row`, by events from number `first` on, oldest
 * first, at most POLICY_SETS_READ. There is more than one only if a set was signed twice, or false events were
 * appended.
 */
RESULT policy_set_find(struct pg *pg, const struct policy_set_row *row, uint64_t first, struct pg_rows **rows_out,
                       struct error *err);
/**
 * As policy_set_find(), without events: at most POLICY_SETS_READ envelopes of rows that claim this epoch and digest,
 * each with the number -1.
 */
RESULT policy_set_find_row(struct pg *pg, const struct policy_set_row *row, struct pg_rows **rows_out, struct error *err);

/**
 * Whether an event from number `first` on loads a set whose epoch is `least` or higher. True also if there are too many
 * events to check.
 */
RESULT policy_set_is_awaited(struct pg *pg, uint64_t least, uint64_t first, bool *is_awaited_out, struct error *err);
/**
 * Counts rows with epochs after `after` that no event from number `first` on names, among the UNRECORDED_SETS_MAX
 * highest epochs.
 */
RESULT policy_sets_unrecorded(struct pg *pg, uint64_t after, uint64_t first, struct unrecorded_sets *unrecorded_out,
                              struct error *err);

/** Stores a label for every repository whose name n has from <= n < until and, with "/" put before it, matches the expression. */
struct stored_label_row {
    const char *policy, *label; /* the policy's id; canonical JSON of a whole label */
    const char *from, *until;
    const char *matching; /* a regular expression of PostgreSQL */
};
RESULT stored_label_insert(struct pg *pg, const struct stored_label_row *row, struct error *err);

/* --- drafts: callers have the permit of the change --- */

struct policy_drafts_waiting {
    int64_t all, of_principal;
    bool is_there; /* the one of this name */
};
/** Removes what has expired, and counts the rest. */
RESULT policy_drafts_count(struct pg *pg, const char *name, const char *principal, struct policy_drafts_waiting *waiting_out,
                           struct error *err);
struct policy_draft_row {
    const char *name, *drafted_by;
    struct bytes payload;
    int64_t expires_ms;
    enum set_change change;
    const char *why;
};
RESULT policy_draft_insert(struct pg *pg, const struct policy_draft_row *row, struct error *err);
/** Columns: name, payload, envelope, principal, end in ms, change, why. `name` NULL: all that wait, the first to end first. */
RESULT policy_drafts_read(struct pg *pg, const char *name, struct pg_rows **rows_out, struct error *err);
/** The same for one name, before there is a permit. */
RESULT policy_drafts_lookup(struct lookup *lookup, const char *name, struct pg_rows **rows_out, struct error *err);
/** *is_signed_out false: its envelope is not `before`. */
RESULT policy_draft_sign(struct pg *pg, const char *name, struct bytes before, struct bytes envelope, bool *is_signed_out,
                         struct error *err);
RESULT policy_draft_remove(struct pg *pg, const char *name, bool *was_there_out, struct error *err);

/** Columns: number of the event, epoch, digest in hex, principal, time in ms, envelope; from event `first` on. */
RESULT policy_sets_loaded(struct pg *pg, uint64_t first, size_t limit, struct pg_rows **rows_out, struct error *err);
/** The envelope of the newest set with this epoch that an event names. */
RESULT policy_set_loaded(struct pg *pg, uint64_t epoch, struct pg_rows **rows_out, struct error *err);

/** How often exceptions were used, by the SHA-256 of their text: rows of key, uses, time of the last one. */
RESULT policy_exception_uses(struct pg *pg, const struct bytes *keys, size_t count, struct pg_rows **rows_out, struct error *err);
/** Columns: number of the event, its entry, four envelopes, "" after the last: documents of signing keys of the registry, from event `first` on. */
RESULT policy_approvers(struct pg *pg, uint64_t first, size_t limit, struct pg_rows **rows_out, struct error *err);
/** The same columns, then the principal that recorded it: documents of the security officers of an organisation, of their keys and those of approvers, and its restrictions. */
RESULT restriction_documents(struct pg *pg, const char *organisation, uint64_t first, size_t limit, struct pg_rows **rows_out,
                             struct error *err);
