/*
 * tests/support/audit_log.h -- a gateway's log for tests: database, keyd, sequencer, and records to submit.
 */
#pragma once

#include <stdatomic.h>

#include "audit/decision_make.h"
#include "audit/sequencer.h"
#include "tests/support/database.h"
#include "tests/support/keyd_process.h"

#define TEST_ORIGIN "registry.test/audit"

struct audit_log {
    struct database *database;
    struct keyd_process *keyd;
    struct sequencer *sequencer;
    unsigned deadline_ms;
    const struct pg_table *const *tables; /* of changes */
};

/** Database and keyd, but no sequencer yet. */
void audit_log_init(struct audit_log *log);
/** Starts a sequencer under that instance's name; the test fails if it can't. */
struct sequencer *audit_log_start(const struct audit_log *log, const char *instance);
RESULT audit_log_try_start(const struct audit_log *log, const char *instance, struct sequencer **sequencer_out,
                           struct error *err);
/** Opens all parts, with a sequencer "gw1". */
void audit_log_open(struct audit_log *log);
void audit_log_close(struct audit_log *log);

/** Facts of a decision to read a blob; `refused`: the denying rules, as JSON texts. */
#define TEST_FACTS(refused) "{\"action\":\"blob.read\",\"digest\":true,\"judged\":[],\"refused\":[" refused "],\"v\":1}"
/** A decision about acme/models/digits at `epoch`, allowing or not. */
struct decision *test_decision(enum verdict verdict, uint64_t epoch);
/** A record of a robot "robot:ci" with that decision; give it to record_done() afterwards. */
struct record test_record(enum verdict verdict);
/** Records so many of them, a third of them denials; each must be recorded. */
void record_some(const struct audit_log *log, unsigned count);
/** Asks the database again and again until it answers so; after 20 s the test fails. */
void wait_for_answer(struct audit_log *log, const char *sql, const char *answer);
/** The epoch after the migrations. */
#define TEST_EPOCH 1

/**
 * Checks that the log is contiguous, that each leaf is well-formed and matches its row, that the ordinals under each key are
 * contiguous, that the root is that of the leaves, and that keyd has signed the newest checkpoint. Returns the size.
 */
uint64_t audit_log_check(struct audit_log *log);
