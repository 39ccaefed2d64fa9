/* Each waiting record gets its outcome: if the server refuses one entry, if the sequencer stops, if too many wait. */
#include "audit/job_permit.h"
#include "tests/integration/sequencer_outcomes_fixture.h"

#include "base/clock.h"
#include "base/fault.h"

#define POISON "00000000-0000-4000-8000-000000000bad"

/* The server answers and refuses: only the refused record is given up, not the others of its group. */
static void one_entry_that_the_server_refuses_harms_no_other(void **state)
{
    struct batched records[TOGETHER];
    struct outcome_list list = {.count = 0};
    struct audit_log log;

    (void)state;
    open_with_deadline(&log, 10000);
    wait_until_recorded(&log, &list);
    database_execute(
        log.database,
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF convert_from(NEW.leaf, 'UTF8') LIKE"
        " '%" POISON "%' THEN RAISE EXCEPTION 'refused'; END IF; RETURN NEW; END $$;"
        "CREATE TRIGGER refuse BEFORE INSERT ON audit_entry FOR EACH ROW EXECUTE FUNCTION refuse()");
    for (size_t i = 0; i < TOGETHER; i++) {
        records[i] = (struct batched){.record = test_record(VERDICT_ALLOW)};
        name_request(&records[i].record);
    }
    (void)snprintf(records[2].record.context.request_id, sizeof records[2].record.context.request_id, "%s", POISON);
    submit_as_one_group(&log, records, TOGETHER);
    for (size_t i = 0; i < TOGETHER; i++) assert_int_equal(records[i].record.status, i == 2 ? RECORD_UNAVAILABLE : RECORD_DONE);
    note_batch(&list, records);
    database_execute(log.database, "DROP TRIGGER refuse ON audit_entry");
    wait_until_recorded(&log, &list);
    stop_and_check(&log, &list);
    audit_log_close(&log);
}

/* A key process that hangs does not delay the end, and no record stays waiting for its subject's key. */
static void who_has_no_key_yet_when_it_stops_is_told(void **state)
{
    static const char *const subjects[] = {"a", "b", "c"};
    struct batched records[COUNT(subjects)];
    struct outcome_list list = {.count = 0};
    struct audit_log log;
    struct batch batch;

    (void)state;
    open_with_deadline(&log, 5000);
    wait_until_recorded(&log, &list);
    keyd_process_pause(log.keyd, true);
    for (size_t i = 0; i < COUNT(records); i++) {
        records[i] = (struct batched){.record = test_record(VERDICT_ALLOW)};
        records[i].record.context.subject = subjects[i];
    }
    begin_batch(log.sequencer, &batch, records, COUNT(records));
    stop(&log);
    keyd_process_pause(log.keyd, false);
    assert_int_equal(batch.left, 0);
    for (size_t i = 0; i < COUNT(records); i++) {
        assert_int_equal(records[i].record.status, RECORD_UNAVAILABLE);
        record_done(&records[i].record);
    }
    assert_true(audit_log_check(&log) > 0);
    audit_log_close(&log);
}

static void *lose_connections(void *argument)
{
    (void)usleep(300000);
    database_disconnect_all(argument);
    return NULL;
}

/* The log is locked and the server goes away: the sequencer still ends, and each record gets an outcome. */
static void what_waits_for_a_held_log_when_it_stops_is_told(void **state)
{
    static struct batched records[50];
    struct outcome_list list = {.count = 0};
    struct audit_log log;
    struct batch batch;
    pthread_t loser;

    (void)state;
    open_with_deadline(&log, 5000);
    wait_until_recorded(&log, &list);
    hold_log(&log);
    for (size_t i = 0; i < COUNT(records); i++)
        records[i] = (struct batched){.record = test_record(i % 2 == 0 ? VERDICT_ALLOW : VERDICT_CHALLENGE)};
    begin_batch(log.sequencer, &batch, records, COUNT(records));
    sequencer_count_refused(log.sequencer);
    assert_int_equal(pthread_create(&loser, NULL, lose_connections, log.database), 0);
    stop(&log);
    assert_int_equal(pthread_join(loser, NULL), 0);
    assert_int_equal(batch.left, 0);
    for (size_t i = 0; i < COUNT(records); i++) record_done(&records[i].record);
    database_reconnect(log.database);
    assert_true(audit_log_check(&log) > 0);
    audit_log_close(&log);
}

#define TOO_MANY  (65536 + 1000 + 40) /* WAITING_MAX, a group that is under way, and some */
#define LONG_WAIT 8000                /* for a log that is held */

static void too_many_that_wait_are_refused_at_once(void **state)
{
    static struct batched records[TOO_MANY];
    static const struct action_pair pair = {.action = ACTION_POLICY_LOAD, .resource = {.kind = RESOURCE_SYSTEM}};
    struct outcome_list list = {.count = 0};
    OWNED(permit) *permit = NULL;
    struct permit *none = NULL;
    struct audit_log log;
    struct batch batch;
    struct error err = {0};

    (void)state;
    open_with_deadline(&log, LONG_WAIT);
    wait_until_recorded(&log, &list);
    assert_true(permit_for_job(log.sequencer, &pair, &permit, &err).ok);
    hold_log(&log);
    for (size_t i = 0; i < COUNT(records); i++)
        records[i].record = (struct record){.under = permit, .outcome = OUTCOME_COMPLETED};
    begin_batch(log.sequencer, &batch, records, COUNT(records));
    const int64_t asked_ms = clock_monotonic_ms();
    assert_false(permit_for_job(log.sequencer, &pair, &none, &err).ok);
    assert_in_range(clock_monotonic_ms() - asked_ms, 0, LONG_WAIT / 2); /* it did not even wait */
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_null(none);
    await_batch(&batch);
    database_execute(log.database, "COMMIT");
    for (size_t i = 0; i < COUNT(records); i++) assert_int_equal(records[i].record.status, RECORD_UNAVAILABLE);
    wait_until_recorded(&log, &list);
    stop(&log);
    char expected[16];
    (void)snprintf(expected, sizeof expected, "%d", TOO_MANY + 1);
    assert_string_equal(database_ask(log.database, "SELECT sum((convert_from(leaf, 'UTF8')::json -> 'why' ->> 'count')::int)"
                                                   " FROM audit_entry WHERE action = 'log.unrecorded'"),
                        expected);
    assert_true(audit_log_check(&log) > 0);
    audit_log_close(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_entry_that_the_server_refuses_harms_no_other),
        cmocka_unit_test(who_has_no_key_yet_when_it_stops_is_told),
        cmocka_unit_test(what_waits_for_a_held_log_when_it_stops_is_told),
        cmocka_unit_test(too_many_that_wait_are_refused_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
