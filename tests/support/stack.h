/*
 * tests/support/stack.h -- the parts that the registry needs, for tests: a database, sijil-keyd, and the sequencer.
 *
 * All parts are real; only the decisions are made here instead of by the decider. One stack serves a whole test program,
 * because a log and a key process belong together. Any failure fails the test at once.
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

/** `tables`: the statements of reads and of changes. */
struct stack *stack_new(const struct pg_table *const *tables);

/** Records that the pairs are allowed, with `change` (or NULL) in the same transaction. */
RESULT stack_record(struct stack *stack, const struct action_pair *pairs, size_t count, struct change *change,
                    struct permit **permit_out, struct error *err);
/** The same for one pair without a change; never fails. */
struct permit *stack_permit(struct stack *stack, enum action action, const struct resource *where);

/** How many events of this action and outcome ("allowed", "completed", "failed") the log has. */
unsigned stack_events(struct stack *stack, const char *action, const char *outcome);

/** database_ask() and database_execute() on the program's database, without the registry's knowledge. */
const char *ask(const char *sql);
void execute(const char *sql);

/** Checks the whole log (audit_log_check()), and ends everything. */
void stack_free(struct stack *stack);
DEFINE_OWNED(stack);
