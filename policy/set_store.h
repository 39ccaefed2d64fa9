/*
 * policy/set_store.h -- rows of the tables policy_set and stored_label.
 *
 * Whoever has the application's role may add as many rows to policy_set as he likes. So every look begins with the few events
 * policy.load of the log, and finds a row by what its event says; nothing here takes longer for rows that no event names.
 */
#pragma once

#include "policy/set_load.h" /* policy_set_table */
#include "storage/pg.h"

struct policy_set_row {
    uint64_t epoch;
    const uint8_t *digest; /* 32 bytes */
    struct bytes envelope;
    const char *loaded_by;
};
/** Appends a row, unless it is there, and raises the authorization epoch. */
RESULT policy_set_insert(struct pg *pg, const struct policy_set_row *row, struct error *err);

#define POLICY_SETS_READ 16 /* at a time: envelopes have up to 2 MiB */
/**
 * Events of the log that say that a set was loaded, from number `first` on, oldest first, at most POLICY_SETS_READ: number, leaf,
 * and the envelope that the event names, "" unless it is stored with an epoch of at least `least`.
 */
RESULT policy_set_events(struct pg *pg, uint64_t least, uint64_t first, struct pg_rows **rows_out, struct error *err);
/**
 * Number and envelope of what was loaded with the epoch and the digest of `row`, by events from number `first` on, oldest first, at most
 * POLICY_SETS_READ. More than one only if one set was signed twice, or somebody appended false events.
 */
RESULT policy_set_find(struct pg *pg, const struct policy_set_row *row, uint64_t first, struct pg_rows **rows_out,
                       struct error *err);
/** As policy_set_find(), without events: any POLICY_SETS_READ envelopes that claim to be it, each with the number -1. */
RESULT policy_set_find_row(struct pg *pg, const struct policy_set_row *row, struct pg_rows **rows_out, struct error *err);

/** Was a set of at least the epoch `least` recorded by an event from number `first` on? True also if there are too many to tell. */
RESULT policy_set_is_awaited(struct pg *pg, uint64_t least, uint64_t first, bool *is_awaited_out, struct error *err);
/** Rows of later epochs than `after` that no event from number `first` on names; of the STRANGE_SETS_MAX greatest epochs. */
RESULT policy_set_strange(struct pg *pg, uint64_t after, uint64_t first, struct strange_sets *strange_out, struct error *err);

/** Keeps a label with every repository whose name n has from <= n < until and, behind one more "/", matches. */
struct stored_label_row {
    const char *policy, *label; /* the policy's id; canonical JSON of a whole label */
    const char *from, *until;
    const char *matching;       /* a regular expression of PostgreSQL's */
};
RESULT stored_label_insert(struct pg *pg, const struct stored_label_row *row, struct error *err);
