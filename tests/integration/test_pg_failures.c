/* The errors when PostgreSQL dies, stops or loses an answer. */
#include "tests/integration/pg_fixture.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "tests/support/signal_process.h"

static void a_lost_connection_is_told_and_mended(void **state)
{
    struct fixture *fixture = *state;
    OWNED(pg_rows) *rows = NULL;
    struct error err;

    database_disconnect_all(fixture->database);
    assert_false(pg_run(fixture->pg, &thing_count_sql, NULL, &rows, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_true(pg_is_broken(fixture->pg));
    assert_false(pg_run(fixture->pg, &thing_count_sql, NULL, &rows, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_true(pg_reopen(fixture->pg, &err).ok);
    assert_true(pg_run(fixture->pg, &thing_count_sql, NULL, &rows, &err).ok);
}

/* A server that restarts while a worker has nothing to do must not cost the next request a 503. */
static void a_loss_while_idle_is_noticed_before_the_next_statement(void **state)
{
    struct fixture *fixture = *state;
    struct error err;

    pg_notice_loss(fixture->pg);
    assert_false(pg_is_broken(fixture->pg));
    database_disconnect_all(fixture->database);
    (void)usleep(100000); /* the server's farewell and the end of the connection have both arrived: one look
                             is enough */
    pg_notice_loss(fixture->pg);
    assert_true(pg_is_broken(fixture->pg));
    assert_true(pg_reopen(fixture->pg, &err).ok);
}

static void a_lost_commit_is_uncertain(void **state)
{
    struct fixture *fixture = *state;
    struct error err;

    assert_true(pg_begin(fixture->pg, &err).ok);
    assert_true(add_thing(fixture->pg, 1, &err).ok);
    database_disconnect_all(fixture->database);
    assert_false(pg_commit(fixture->pg, &err).ok);
    assert_int_equal(err.kind, ERROR_UNCERTAIN);

    assert_true(pg_reopen(fixture->pg, &err).ok);
    database_disconnect_all(fixture->database);
    assert_false(add_thing(fixture->pg, 1, &err).ok); /* a transaction of its own */
    assert_int_equal(err.kind, ERROR_UNCERTAIN);
}

static const struct pg_limits impatient = {.connect_ms = 2000, .answer_ms = 1500, .session = "SET TimeZone = 'UTC'"};

static void a_server_that_stands_still_blocks_nobody(void **state)
{
    struct fixture *fixture = *state;
    OWNED(pg) *pg = NULL;
    OWNED(pg_rows) *rows = NULL;
    struct error err;

    assert_true(pg_open_with(database_app(fixture->database), tables, &impatient, &pg, &err).ok);
    assert_true(pg_run(pg, &backend_sql, NULL, &rows, &err).ok);
    const pid_t backend = (pid_t)pg_int8(rows, 0, 0);
    assert_true(signal_process(backend, SIGSTOP));
    const int64_t before_ms = clock_monotonic_ms();
    const bool ok = pg_run(pg, &thing_count_sql, NULL, NULL, &err).ok;
    const int64_t took_ms = clock_monotonic_ms() - before_ms;
    assert_true(signal_process(backend, SIGCONT));
    assert_false(ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_in_range(took_ms, 1400, 9000);
    assert_true(pg_is_broken(pg));
    assert_true(pg_reopen(pg, &err).ok);
}

static void a_server_that_does_not_answer_at_all_blocks_nobody(void **state)
{
    struct fixture *fixture = *state;
    struct pg *pg = NULL;
    struct error err;
    const struct pg_limits hasty = {.connect_ms = 300, .answer_ms = 300, .session = ""};
    const pid_t server = database_server();

    assert_true(signal_process(server, SIGSTOP));
    const bool ok = pg_open_with(database_app(fixture->database), tables, &hasty, &pg, &err).ok;
    assert_true(signal_process(server, SIGCONT));
    assert_false(ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
}

static void a_server_that_is_not_there_is_unavailable(void **state)
{
    struct pg *pg = NULL;
    struct error err;

    (void)state;
    assert_false(pg_open("host=/nonexistent user=sijil_app dbname=x", NULL, &pg, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
}

static void notifications_arrive(void **state)
{
    struct fixture *fixture = *state;
    OWNED(pg) *listener = NULL;
    struct error err;
    bool notified = true;

    assert_true(pg_open(database_app(fixture->database), NULL, &listener, &err).ok);
    assert_true(pg_listen(listener, "news", &err).ok);
    assert_true(pg_wait_notify(listener, 50, &notified, &err).ok);
    assert_false(notified);
    for (int i = 0; i < 2; i++) assert_true(pg_run(fixture->pg, &tell_sql, NULL, NULL, &err).ok);
    assert_true(pg_wait_notify(listener, 5000, &notified, &err).ok);
    assert_true(notified);

    database_disconnect_all(fixture->database);
    while (pg_wait_notify(listener, 5000, &notified, &err).ok) assert_true(notified); /* what came before */
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_true(pg_reopen(listener, &err).ok && pg_reopen(fixture->pg, &err).ok);
    assert_true(pg_run(fixture->pg, &tell_sql, NULL, NULL, &err).ok);
    assert_true(pg_wait_notify(listener, 5000, &notified, &err).ok);
    assert_true(notified);
    for (int i = 0; i < 10; i++) /* one channel: it was counted anew each time, until there were too many */
        assert_true(pg_listen(listener, "news", &err).ok);
}

static void an_unsafe_server_is_refused(void **state)
{
    OWNED(database) *database = database_new();
    struct pg *pg = NULL;
    struct error err;

    (void)state;
    database_execute(database, "DO $$ BEGIN EXECUTE format('ALTER ROLE sijil_app IN DATABASE %I SET"
                               " synchronous_commit = off', current_database()); END $$");
    assert_false(pg_open(database_app(database), NULL, &pg, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_non_null(strstr(err.message, "synchronous_commit is off"));
}

static struct result work(const char *conninfo, int64_t id, struct error *err)
{
    OWNED(pg) *pg = NULL;
    OWNED(pg_rows) *count = NULL;
    struct pg_rows *rows[1];
    bool is_told;

    TRY_UNTOUCHED_BYTES(pg, pg_open(conninfo, tables, &pg, err));
    TRY(pg_listen(pg, "news", err));
    TRY_UNTOUCHED_BYTES(is_told, pg_wait_notify(pg, 0, &is_told, err));
    TRY(pg_begin(pg, err));
    TRY(add_thing(pg, id, err));
    TRY_UNTOUCHED_BYTES(count, pg_run(pg, &thing_count_sql, NULL, &count, err));
    TRY(pg_pipeline_add(pg, &thing_count_sql, NULL, err));
    TRY(pg_pipeline_run(pg, rows, 1, err));
    pg_rows_free(rows[0]);
    return pg_commit(pg, err);
}

static struct result work_lazily(const char *conninfo, int64_t id, struct error *err)
{
    OWNED(pg) *pg = NULL;
    OWNED(pg_rows) *count = NULL;

    TRY_UNTOUCHED_BYTES(pg, pg_open_lazily(conninfo, tables, &pg, err));
    TRY_UNTOUCHED_BYTES(count, pg_run(pg, &thing_count_sql, NULL, &count, err));
    TRY(pg_begin(pg, err));
    TRY(add_thing(pg, id, err));
    return pg_commit(pg, err);
}

#define LARGE 300000 /* more than libpq keeps back: the server reads COMMIT before the pipeline is run */

static struct result work_large(const char *conninfo, int64_t id, struct error *err)
{
    static char name[LARGE];
    OWNED(pg) *pg = NULL;
    struct pg_arguments arguments = {0};
    struct pg_rows *rows[3];

    memset(name, 'x', sizeof name - 1);
    pg_add_int8(&arguments, id);
    pg_add_text(&arguments, name);
    TRY_UNTOUCHED_BYTES(pg, pg_open(conninfo, tables, &pg, err));
    TRY(pg_pipeline_begin(pg, err));
    TRY(pg_pipeline_add(pg, &thing_name_sql, &arguments, err));
    TRY(pg_pipeline_commit(pg, err));
    TRY(pg_pipeline_run(pg, rows, 3, err));
    for (size_t i = 0; i < 3; i++) pg_rows_free(rows[i]);
    return SUCCESS;
}

/* Each failure in turn: a reported change exists, and a change that was reported as failed does not. */
static void try_every_failure(struct fixture *fixture, struct result (*try)(const char *, int64_t, struct error *),
                              unsigned long least)
{
    const char *conninfo = database_app(fixture->database);
    bool was_uncertain = false, has_fired = true;
    unsigned long nth = 1;
    char sql[64];

    for (; has_fired; nth++) {
        struct error err = {0};
        fault_arm(nth);
        const bool ok = try(conninfo, (int64_t)nth, &err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        if (!ok) (void)usleep(100000); /* the server runs every statement that it has read, even after the connection has ended */
        (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM thing WHERE id = %lu", nth);
        const char *count = database_ask(fixture->database, sql);
        if (ok) assert_string_equal(count, "1");
        assert_int_equal(ok, !has_fired);
        if (ok) break;
        if (err.kind == ERROR_UNCERTAIN) was_uncertain = true;
        else assert_string_equal(count, "0");
        assert_true(err.kind == ERROR_UNCERTAIN || err.kind == ERROR_UNAVAILABLE || err.kind == ERROR_NO_MEMORY);
    }
    assert_true(was_uncertain);
    assert_failures(nth - 1, least);
}

static void every_failure_is_told_truly(void **state)
{
    try_every_failure(*state, work, 40);
}

static void every_failure_of_a_lazy_connection_is_told_truly(void **state)
{
    try_every_failure(*state, work_lazily, 20);
}

static void every_failure_of_a_large_pipeline_is_told_truly(void **state)
{
    try_every_failure(*state, work_large, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_lost_connection_is_told_and_mended),
        TEST(a_loss_while_idle_is_noticed_before_the_next_statement),
        TEST(a_lost_commit_is_uncertain),
        TEST(a_server_that_stands_still_blocks_nobody),
        TEST(a_server_that_does_not_answer_at_all_blocks_nobody),
        cmocka_unit_test(a_server_that_is_not_there_is_unavailable),
        cmocka_unit_test(an_unsafe_server_is_refused),
        TEST(notifications_arrive),
        TEST(every_failure_is_told_truly),
        TEST(every_failure_of_a_lazy_connection_is_told_truly),
        TEST(every_failure_of_a_large_pipeline_is_told_truly),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
