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
/**
 * Appends a row and raises the authorization epoch. ERROR_CONFLICT if this epoch or a later one was loaded, or another row of this
 * epoch is there; the very same row, which nobody has loaded, is as good as a new one.
 */
RESULT policy_set_insert(struct pg *pg, const struct policy_set_row *row, struct error *err);
/**
 * Envelopes of later epochs that were loaded, newest first, at most POLICY_SETS_READ, each with number and leaf of the event that
 * says so; and then that of `epoch`, with -1 and "".
 */
#define POLICY_SETS_READ 16 /* sets recorded and not yet pinned; there is hardly ever one */
RESULT policy_set_newest(struct pg *pg, uint64_t epoch, struct pg_rows **rows_out, struct error *err);

/** Rows newer than an epoch, by whether the log says that they were loaded. Reads no envelope. */
struct policy_set_news {
    bool has_loaded;
    struct strange_sets strange;
};
RESULT policy_set_news(struct pg *pg, uint64_t epoch, struct policy_set_news *news_out, struct error *err);

/** Keeps a label with every repository whose name n has from <= n < until and, behind one more "/", matches. */
struct stored_label_row {
    const char *policy, *label; /* the policy's id; canonical JSON of a whole label */
    const char *from, *until;
    const char *matching;       /* a regular expression of PostgreSQL's */
};
RESULT stored_label_insert(struct pg *pg, const struct stored_label_row *row, struct error *err);
