/*
 * policy/set_store.h -- rows of the tables policy_set and stored_label.
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
/** Holds the authorization epoch's lock exclusively until the transaction ends: the same one as the sequencer's
 *  (audit/sequencer.h), which takes it by itself for a change that raises the epoch. */
RESULT policy_set_lock(struct pg *pg, struct error *err);
/** Appends a row and raises the authorization epoch. ERROR_CONFLICT if this epoch or a later one is stored. */
RESULT policy_set_insert(struct pg *pg, const struct policy_set_row *row, struct error *err);
/** Is exactly this set stored? */
RESULT policy_set_is_stored(struct pg *pg, const struct policy_set_row *row, bool *is_stored_out, struct error *err);
/** Envelopes of later epochs, newest first, at most POLICY_SETS_READ, and then that of `epoch`; column 0 of the rows. */
#define POLICY_SETS_READ 16 /* sets recorded and not yet pinned; there is hardly ever one */
RESULT policy_set_newest(struct pg *pg, uint64_t epoch, struct pg_rows **rows_out, struct error *err);
/** Is any set newer than `epoch` stored? Reads no envelope. */
RESULT policy_set_has_newer(struct pg *pg, uint64_t epoch, bool *has_newer_out, struct error *err);

/** Keeps a label with every repository whose name n has from <= n < until and, behind one more "/", matches. */
struct stored_label_row {
    const char *policy, *label; /* the policy's id; canonical JSON of a whole label */
    const char *from, *until;
    const char *matching;       /* a regular expression of PostgreSQL's */
};
RESULT stored_label_insert(struct pg *pg, const struct stored_label_row *row, struct error *err);
