/* Runs of a withdrawn runner: those that wait are quarantined, admitted ones are marked once, and all others stay as they are. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/integration/signed_lease.h"
#include "tests/integration/training_fixture.h"
#include "training/doubt.h"

#define STOLEN "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
#define GOOD   "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"
#define MINUTE INT64_C(60000)

/* ---- runs, as the registry leaves them ---- */

struct made {
    const char *key, *state, *outcome;
    int minutes_ago, attempt, newest; /* the attempt of this key, and the run's newest */
    const char *lease;                /* an envelope; NULL: the one that sijil-keyd has signed; "": none */
};

static struct uuid make(const struct made *made)
{
    const struct uuid id = uuid_random();
    char sql[9000], run[UUID_TEXT_SIZE], where[UUID_TEXT_SIZE];
    const bool has_ended = strcmp(made->state, "finishing") != 0 && strcmp(made->state, "running") != 0;

    uuid_format(&id, run);
    uuid_format(&project.project, where);
    (void)snprintf(
        sql, sizeof sql,
        "INSERT INTO run (run_id, project_id, state, request, requester, approvals_wanted, pool, expires_at, attempts, attempt)"
        " VALUES ('%s', '%s', 'running', sha256('x'), 'ext:x', 0, 'gpu', now() + interval '1 day', 3, %d)",
        run, where, made->newest);
    execute(sql);
    const char *lease = made->lease != NULL ? made->lease : signed_lease(run, made->attempt, STOLEN, "keyd");
    (void)snprintf(
        sql, sizeof sql,
        "INSERT INTO run_attempt (run_id, attempt, node, runner, key, session, deadline, ends_at, ended_at, outcome, lease)"
        " VALUES ('%s', %d, 0, gen_random_uuid(), '%s', substr(sha256('x'), 1, 16), now(), now(), now() - interval '%d minutes', '%s', nullif('%s', ''))",
        run, made->attempt, made->key, made->minutes_ago, made->outcome, lease);
    execute(sql);
    (void)snprintf(sql, sizeof sql, "UPDATE run SET state = '%s', ended_at = %s WHERE run_id = '%s'", made->state,
                   has_ended ? "now()" : "NULL", run);
    execute(sql);
    return id;
}

static struct run_withdrawal withdrawal_since(int minutes_ago)
{
    static int64_t now_ms; /* one withdrawal says one time */

    if (now_ms == 0) now_ms = clock_wall_ms();
    return (struct run_withdrawal){bytes_of_text(STOLEN), {{7}}, now_ms - minutes_ago * MINUTE, "its disk was stolen"};
}

static size_t look(int minutes_ago)
{
    const struct run_withdrawal withdrawal = withdrawal_since(minutes_ago);
    const struct run_withdrawals one = {1, &withdrawal, signer_of("keyd")};
    struct error err = {0};
    size_t count = 0;

    must(run_doubt_due(stack->sequencer, stack->pg, &one, &count, &err), &err);
    return count;
}

static const char *state_of(const struct uuid *id)
{
    char sql[120], run[UUID_TEXT_SIZE];

    uuid_format(id, run);
    (void)snprintf(sql, sizeof sql, "SELECT state FROM run WHERE run_id = '%s'", run);
    return ask(sql);
}

static size_t doubts_of(const struct uuid *id, char reason_out[RUN_REASON_SIZE])
{
    OWNED(permit) *permit = stack_permit(stack, ACTION_RUN_READ, &project);
    OWNED(pg_rows) *rows = NULL;
    struct error err = {0};

    must(run_doubts(permit, stack->pg, ACTION_RUN_READ, id, &rows, &err), &err);
    if (pg_rows_count(rows) > 0) (void)snprintf(reason_out, RUN_REASON_SIZE, "%s", pg_text(rows, 0, RUN_DOUBT_REASON));
    return pg_rows_count(rows);
}

/* ---- what follows ---- */

static const struct row {
    const char *name;
    struct made made;
    bool is_marked;
    const char *state; /* afterwards */
} rows[] = {
    {"admitted, finished since", {STOLEN, "succeeded", "finished", 5, 1, 1, NULL}, true, "succeeded"},
    {"waits for its admission", {STOLEN, "finishing", "finished", 5, 1, 1, NULL}, false, "quarantined"},
    {"admitted, finished before", {STOLEN, "succeeded", "finished", 60, 1, 1, NULL}, false, "succeeded"},
    {"waits, finished before", {STOLEN, "finishing", "finished", 60, 1, 1, NULL}, false, "finishing"},
    {"of another runner", {GOOD, "succeeded", "finished", 5, 1, 1, NULL}, false, "succeeded"},
    {"an earlier attempt", {STOLEN, "succeeded", "finished", 5, 1, 2, NULL}, false, "succeeded"},
    {"an attempt that was lost", {STOLEN, "succeeded", "lost", 5, 1, 1, NULL}, false, "succeeded"},
    {"failed", {STOLEN, "failed", "finished", 5, 1, 1, NULL}, false, "failed"},
    {"cancelled", {STOLEN, "cancelled", "stopped", 5, 1, 1, NULL}, false, "cancelled"},
};

static void each_run_gets_what_it_deserves(void **state)
{
    const struct row *row = *state;
    const struct uuid id = make(&row->made);
    char reason[RUN_REASON_SIZE] = "";
    const unsigned before = stack_events(stack, "run.doubt", "allowed");
    const bool is_changed = row->is_marked || strcmp(row->state, row->made.state) != 0;

    assert_int_equal(look(30), is_changed ? 1 : 0);
    assert_string_equal(state_of(&id), row->state);
    assert_int_equal(doubts_of(&id, reason), row->is_marked ? 1 : 0);
    assert_string_equal(reason, row->is_marked ? "its disk was stolen" : "");
    assert_int_equal(stack_events(stack, "run.doubt", "allowed"), before + (row->is_marked ? 1 : 0));
    assert_int_equal(look(30), 0); /* once */
}

static void many_runs_take_several_rounds(void **state)
{
    const struct made made = {STOLEN, "succeeded", "finished", 5, 1, 1, NULL};
    size_t all = 0, rounds = 0;

    (void)state;
    for (int i = 0; i < 130; i++) (void)make(&made);
    for (size_t count = 1; count > 0; rounds++) all += count = look(30);
    assert_int_equal(all, 130);
    assert_int_equal(rounds, 3);
}

static struct result doubt(void *context, struct error *err)
{
    const struct run_withdrawals one = {1, context, signer_of("keyd")};
    size_t count = 0;

    return run_doubt_due(stack->sequencer, stack->pg, &one, &count, err);
}

static void a_failure_leaves_it_to_the_next_round(void **state)
{
    const struct made made = {STOLEN, "succeeded", "finished", 5, 1, 1, NULL};
    struct run_withdrawal withdrawal = withdrawal_since(30);
    char reason[RUN_REASON_SIZE];
    struct error err = {0};

    (void)state;
    const struct uuid id = make(&made);
    fault_arm(1);
    assert_false(doubt(&withdrawal, &err).ok);
    fault_arm(0);
    assert_int_equal(doubts_of(&id, reason), 0);
    must(doubt(&withdrawal, &err), &err);
    assert_int_equal(doubts_of(&id, reason), 1);
}

/* With the database role somebody adds a doubt that excuses the runner before it is withdrawn. It keeps neither the event away nor the reason. */
static void a_foreign_row_keeps_no_doubt_away(void **state)
{
    const struct made made = {STOLEN, "succeeded", "finished", 5, 1, 1, NULL};
    const struct uuid id = make(&made);
    const unsigned before = stack_events(stack, "run.doubt", "allowed");
    char sql[300], run[UUID_TEXT_SIZE], reason[RUN_REASON_SIZE] = "";

    (void)state;
    uuid_format(&id, run);
    (void)snprintf(
        sql, sizeof sql,
        "INSERT INTO run_doubt (run_id, key, runner, since, reason) VALUES ('%s', '%s', gen_random_uuid(), now(), 'routine')",
        run, STOLEN);
    execute(sql);
    const struct run_withdrawal withdrawal = withdrawal_since(30);
    const struct run_withdrawals one = {1, &withdrawal, signer_of("keyd")};
    struct error err = {0};
    for (size_t again = 0, count = 0; again < 2; again++) {
        must(run_doubt_due(stack->sequencer, stack->pg, &one, &count, &err), &err);
        assert_int_equal(count, again == 0 ? 1 : 0);
        assert_int_equal(doubts_of(&id, reason), 1);
        assert_string_equal(reason, "its disk was stolen");
        assert_int_equal(stack_events(stack, "run.doubt", "allowed"), before + 1);
    }
}

/* ---- rows that somebody has written with the gateways' role ---- */

/* The lease of another run, of an attempt of which the key had none, and one that somebody else has signed. */
static void a_forged_attempt_ends_no_run(void **state)
{
    static char others[3][8192]; /* as signed_lease() */
    const struct made real = {STOLEN, "failed", "finished", 5, 1, 1, NULL};
    const struct uuid other = make(&real);
    char run[UUID_TEXT_SIZE];

    (void)state;
    uuid_format(&other, run);
    (void)snprintf(others[0], sizeof others[0], "%s", signed_lease(run, 1, STOLEN, "keyd"));
    (void)snprintf(others[1], sizeof others[1], "not even JSON");
    others[2][0] = '\0';
    for (size_t i = 0; i < COUNT(others); i++) {
        const struct made forged = {STOLEN, "finishing", "finished", 5, 1, 1, others[i]};
        const struct uuid id = make(&forged);
        assert_int_equal(look(30), 0);
        assert_string_equal(state_of(&id), "finishing");
    }
    execute("UPDATE run SET state = 'failed', ended_at = now() WHERE ended_at IS NULL");
}

static size_t look_as(const char *signer)
{
    const struct run_withdrawal withdrawal = withdrawal_since(30);
    const struct run_withdrawals one = {1, &withdrawal, signer_of(signer)};
    struct error err = {0};
    size_t count = 0;

    must(run_doubt_due(stack->sequencer, stack->pg, &one, &count, &err), &err);
    return count;
}

static void only_the_signature_of_keyd_counts(void **state)
{
    const struct made made = {STOLEN, "finishing", "finished", 5, 1, 1, NULL};
    const struct uuid id = make(&made);

    (void)state;
    assert_int_equal(look_as("requester"), 0);
    assert_string_equal(state_of(&id), "finishing");
    assert_int_equal(look_as("keyd"), 1);
    assert_string_equal(state_of(&id), "quarantined");
}

/* More of them than are looked at in one round. */
static void forged_attempts_keep_no_doubt_away(void **state)
{
    const struct made forged = {STOLEN, "finishing", "finished", 5, 1, 1, ""},
                      real = {STOLEN, "finishing", "finished", 5, 1, 1, NULL};

    (void)state;
    for (int i = 0; i < 120; i++) (void)make(&forged);
    const struct uuid id = make(&real);
    assert_int_equal(look(30), 1);
    assert_string_equal(state_of(&id), "quarantined");
    assert_string_equal(ask("SELECT count(*) FROM run WHERE state = 'finishing'"), "120");
    execute("UPDATE run SET state = 'failed', ended_at = now() WHERE ended_at IS NULL");
}

int main(void)
{
    struct CMUnitTest tests[COUNT(rows) + 6];

    for (size_t i = 0; i < COUNT(rows); i++)
        tests[i] = (struct CMUnitTest){
            .name = rows[i].name, .test_func = each_run_gets_what_it_deserves, .initial_state = (void *)(uintptr_t)&rows[i]};
    tests[COUNT(rows)] = (struct CMUnitTest)cmocka_unit_test(many_runs_take_several_rounds);
    tests[COUNT(rows) + 1] = (struct CMUnitTest)cmocka_unit_test(a_failure_leaves_it_to_the_next_round);
    tests[COUNT(rows) + 2] = (struct CMUnitTest)cmocka_unit_test(a_foreign_row_keeps_no_doubt_away);
    tests[COUNT(rows) + 3] = (struct CMUnitTest)cmocka_unit_test(a_forged_attempt_ends_no_run);
    tests[COUNT(rows) + 4] = (struct CMUnitTest)cmocka_unit_test(only_the_signature_of_keyd_counts);
    tests[COUNT(rows) + 5] = (struct CMUnitTest)cmocka_unit_test(forged_attempts_keep_no_doubt_away);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
