/* The database's time is checked before it is recorded. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/log_clock_priv.h"
#include "audit/metrics.h"
#include "base/clock.h"
#include "tests/support/audit_log.h"

#define NOW 1767225600000
#define S   1000

/* Two readings; the first is right, the second differs as the row says. */
static const struct reading_row {
    const char *name;
    int64_t passed_ms, took_ms, database_ms, wall_ms; /* since boot; time of the answer; progress of both clocks */
    bool is_taken;
    int64_t step_ms;
} reading_rows[] = {
    {"a second later", S, 0, S, S, true, 0},
    {"a slow answer, read at its beginning", 10 * S, 9 * S, S, 10 * S, true, 0},
    {"a slow answer, read at its end", 10 * S, 9 * S, 10 * S, 10 * S, true, 0},
    {"a little ahead", S, 0, 3 * S, S, true, 0},
    {"five seconds ahead", S, 0, 6 * S, S, true, 5 * S},
    {"five seconds back", 10 * S, 0, 5 * S, 10 * S, true, -5 * S},
    {"half a minute off the wall clock", S, 0, 31 * S, S, true, 30 * S},
    {"more than that", S, 0, 32 * S, S, false, 0},
    {"more than that behind", S, 0, -30 * S, S, false, 0},
    {"the wall clock alone goes", S, 0, S, 60 * S, false, 0},
    {"the machine's clock is set by an hour", S, 0, 3601 * S, 3601 * S, true, 3600 * S},
    {"and back by an hour", S, 0, -3599 * S, -3599 * S, true, -3600 * S},
    {"it is set by a day", S, 0, 86401 * S, 86401 * S, false, 0},
    {"and back by a day", S, 0, -86399 * S, -86399 * S, false, 0},
    {"by thirty years", S, 0, 946080000000, 946080000000, false, 0},
    {"clocks that run apart for a day", 86400 * S, 0, 86440 * S, 86440 * S, true, 0},
    {"and more than clocks do", 86400 * S, 0, 86500 * S, 86500 * S, true, 100 * S},
};

static void readings_are_judged(void **state)
{
    const struct reading_row *row = *state;
    const struct clock_reading first = {NOW, 5000, 5000, NOW};
    const struct clock_reading second = {NOW + row->database_ms, 5000 + row->passed_ms - row->took_ms, 5000 + row->passed_ms,
                                         NOW + row->wall_ms};
    const struct clock_reading back = {NOW + row->passed_ms + S, 5000 + row->passed_ms + S, 5000 + row->passed_ms + S,
                                       NOW + row->passed_ms + S};
    const int64_t steps = metric_value(AUDIT_METRIC(audit_clock_steps));
    struct log_clock clock = {0};
    struct error err = {0};

    assert_true(log_clock_read(&clock, &first, &err).ok);
    assert_int_equal(log_clock_read(&clock, &second, &err).ok, row->is_taken);
    assert_int_equal(clock.is_refused, !row->is_taken);
    if (!row->is_taken) assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_int_equal(clock.stepped_ms, row->step_ms);
    assert_int_equal(clock.steps, row->step_ms != 0);
    assert_int_equal(metric_value(AUDIT_METRIC(audit_clock_refused)), !row->is_taken);
    assert_int_equal(metric_value(AUDIT_METRIC(audit_clock_steps)) - steps, row->step_ms != 0);
    assert_true(log_clock_read(&clock, &back, &err).ok); /* a refusal ends once the clock is right */
    assert_false(clock.is_refused);
    assert_int_equal(metric_value(AUDIT_METRIC(audit_clock_refused)), 0);
    if (!row->is_taken) assert_int_equal(clock.steps, 0);
}

/* A search path replaces functions of pg_catalog, so the test sets the clock of this database. */
static void take_the_clock(struct audit_log *log)
{
    char sql[1024];

    (void)snprintf(sql, sizeof sql,
                   "CREATE TABLE clock_offset AS SELECT 0 AS s; GRANT SELECT ON clock_offset TO sijil_app;"
                   " CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS"
                   " 'SELECT pg_catalog.clock_timestamp() + (SELECT s FROM public.clock_offset) * interval ''1 second''';"
                   " ALTER DATABASE %s SET search_path = public, pg_catalog",
                   database_ask(log->database, "SELECT quote_ident(current_database())"));
    database_execute(log->database, sql);
}

static void set_clock(struct audit_log *log, int offset_s)
{
    char sql[80];

    (void)snprintf(sql, sizeof sql, "UPDATE clock_offset SET s = %d", offset_s);
    database_execute(log->database, sql);
    (void)usleep(1200000); /* the last reading is used for this time */
}

static void a_clock_that_jumps_is_not_followed(void **state)
{
    struct audit_log log;
    struct record record = test_record(VERDICT_ALLOW);
    struct error err = {0};

    (void)state;
    audit_log_init(&log);
    take_the_clock(&log);
    log.sequencer = audit_log_start(&log, "gw1");
    record_some(&log, 2);
    set_clock(&log, 3600);
    sequencer_submit_and_wait(log.sequencer, &record);
    assert_int_equal(record.status, RECORD_UNAVAILABLE);
    assert_non_null(strstr(record.error.message, "clock"));
    record_done(&record);
    assert_false(sequencer_is_ready(log.sequencer, &err));
    set_clock(&log, 0); /* over when it is over */
    record_some(&log, 2);
    assert_string_equal(
        database_ask(log.database, "SELECT count(*) FROM audit_entry WHERE ts > extract(epoch FROM now()) * 1000 + 5000"), "0");
    set_clock(&log, 20); /* accepted, and in the log */
    record_some(&log, 1);
    wait_for_answer(&log, "SELECT count(*) FROM audit_entry WHERE action = 'clock.step'", "1");
    set_clock(&log, 0);
    record_some(&log, 1);
    wait_for_answer(&log, "SELECT count(*) FROM audit_entry WHERE action = 'clock.step'", "2");
    assert_string_equal(database_ask(log.database,
                                     "SELECT string_agg(substr(convert_from(leaf, 'UTF8')::json -> 'why' ->> 'note', 1, 1), ''"
                                     " ORDER BY seq) FROM audit_entry WHERE action = 'clock.step'"),
                        "+-");
    assert_true(audit_log_check(&log) > 6);
    audit_log_close(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_clock_that_jumps_is_not_followed)};

    return cmocka_run_group_tests(tests, NULL, NULL) + RUN_TABLE(reading_rows, readings_are_judged);
}
