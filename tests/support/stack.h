/*
 * tests/support/stack.h -- what the registry stands on, for tests: a database, sijil-keyd, and the sequencer.
 *
 * All of it is the real thing; only the decisions are made here instead of by the decider. One stack serves a whole
 * test program, because a log and a key process belong together. Trouble fails the test at once.
 */
#pragma once

#include "tests/support/audit_log.h"

struct stack {
    struct audit_log log;
    struct database *database; /* of the log, as the next two */
    struct keyd_client *keyd;
    struct sequencer *sequencer;
    struct pg *pg; /* as the application, for reads */
};

/** `tables`: of the reads and of the changes. */
struct stack *stack_new(const struct pg_table *const *tables);

/** Records that the pairs are allowed, with `change` (or NULL) in the same transaction. */
RESULT stack_record(struct stack *stack, const struct action_pair *pairs, size_t count, struct change *change,
                    struct permit **permit_out, struct error *err);
/** The same for one pair without a change; never fails. */
struct permit *stack_permit(struct stack *stack, enum action action, const struct resource *where);

/** How many events of this action and outcome ("allowed", "completed", "failed") the log has. */
unsigned stack_events(struct stack *stack, const char *action, const char *outcome);

/** The first value of an answer of the program's database, and what is done to it behind the registry's back: database_ask(),
 *  database_execute(). */
const char *ask(const char *sql);
void execute(const char *sql);

/** Checks the whole log (audit_log_check()), and ends everything. */
void stack_free(struct stack *stack);
DEFINE_OWNED(stack);
