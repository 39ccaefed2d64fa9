#include "tests/support/stack.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "tests/support/unit.h"

static struct database *asked; /* of the program's only stack */

const char *ask(const char *sql)
{
    return database_ask(asked, sql);
}

void execute(const char *sql)
{
    database_execute(asked, sql);
}

struct stack *stack_new(const struct pg_table *const *tables)
{
    struct stack *stack = memory_zeroed(1, sizeof *stack);
    struct error err = {0};

    assert_non_null(stack);
    audit_log_init(&stack->log);
    stack->log.tables = tables;
    stack->log.deadline_ms = 20000;
    stack->log.sequencer = audit_log_start(&stack->log, "gw1");
    asked = stack->database = stack->log.database;
    stack->keyd = keyd_process_client(stack->log.keyd);
    stack->sequencer = stack->log.sequencer;
    if (!pg_open(database_app(stack->database), tables, &stack->pg, &err).ok) fail_msg("%s", err.message);
    return stack;
}

static uint64_t epoch_now(struct stack *stack)
{
    uint64_t epoch = 0;

    assert_true(text_to_u64(bytes_of_text(database_ask(stack->database, "SELECT epoch::text FROM authorization_epoch")),
                            UINT64_MAX, &epoch));
    return epoch;
}

static struct result record_once(struct stack *stack, const struct action_pair *pairs, size_t count, struct change *change,
                                 struct permit **permit_out, enum record_status *status_out, struct error *err)
{
    struct decision_parts parts = {.verdict = VERDICT_ALLOW, .epoch = epoch_now(stack), .pair_count = count};
    struct record record = {.change = change, .context = {.client_address = "127.0.0.1"}};

    (void)snprintf(parts.id, sizeof parts.id, "sha256:%064d", 0);
    memcpy(parts.pairs, pairs, count * sizeof *pairs);
    TRY(decision_make(&parts, &record.decision, err));
    sequencer_submit_and_wait(stack->sequencer, &record);
    const enum record_status status = *status_out = record.status;
    if (status == RECORD_DONE && permit_out != NULL) *permit_out = GIVE(record.permit);
    *err = record.error;
    record_done(&record);
    if (status == RECORD_DONE) return SUCCESS;
    if (status == RECORD_REFUSED) return (struct result){.ok = false};
    return failure(err, ERROR_UNAVAILABLE, "record status %d", (int)status);
}

/* Rights that change forget the keys of subjects, so that an equal decision may have to be made anew. */
struct result stack_record(struct stack *stack, const struct action_pair *pairs, size_t count, struct change *change,
                           struct permit **permit_out, struct error *err)
{
    enum record_status status = RECORD_UNAVAILABLE;
    const struct result first = record_once(stack, pairs, count, change, permit_out, &status, err);

    return status == RECORD_STALE ? record_once(stack, pairs, count, change, permit_out, &status, err) : first;
}

struct permit *stack_permit(struct stack *stack, enum action action, const struct resource *where)
{
    const struct action_pair pair = {.action = action, .resource = *where};
    struct permit *permit = NULL;
    struct error err = {0};

    if (!stack_record(stack, &pair, 1, NULL, &permit, &err).ok) fail_msg("%s: %s", action_name(action), err.message);
    return permit;
}

unsigned stack_events(struct stack *stack, const char *action, const char *outcome)
{
    char sql[160];
    uint64_t count = 0;

    (void)snprintf(sql, sizeof sql, "SELECT count(*)::text FROM audit_entry WHERE action = '%s' AND outcome = '%s'", action,
                   outcome);
    assert_true(text_to_u64(bytes_of_text(database_ask(stack->database, sql)), UINT32_MAX, &count));
    return (unsigned)count;
}

void stack_free(struct stack *stack)
{
    if (stack == NULL) return;
    pg_free(stack->pg);
    (void)audit_log_check(&stack->log);
    audit_log_close(&stack->log);
    free(stack);
}
