/*
 * tests/support/stack.h -- what the registry stands on, for tests: a database, sijil-keyd, and the sequencer.
 *
 * All of it is the real thing; only the decisions are made here instead of by the decider. One stack serves a whole
 * test program, because a log and a key process belong together. Trouble fails the test at once.
 */
#pragma once

#include "audit/sequencer.h"
#include "crypto/keyd_client.h"
#include "tests/support/database.h"

struct stack {
    struct database *database;
    struct keyd_client *keyd;
    struct sequencer *sequencer;
    struct pg *pg; /* as the application, for reads */
    char directory[32], socket[64];
    int keyd_pid;
};

/** `tables`: of the reads and of the changes. Needs SIJIL_KEYD in the environment. */
struct stack *stack_new(const struct pg_table *const *tables);

/** Records that the pairs are allowed, with `change` (or NULL) in the same transaction. */
RESULT stack_record(struct stack *stack, const struct action_pair *pairs, size_t count, struct change *change,
                    struct permit **permit_out, struct error *err);
/** The same for one pair without a change; never fails. */
struct permit *stack_permit(struct stack *stack, enum action action, const struct resource *where);

/** How many events of this action and outcome ("allowed", "completed", "failed") the log has. */
unsigned stack_events(struct stack *stack, const char *action, const char *outcome);

void stack_free(struct stack *stack);
DEFINE_OWNED(stack);
