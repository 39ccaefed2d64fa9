/* Changes that only give a role: what was decided before them still holds, several of them end a group, and none comes behind a change that takes. */
#include "tests/integration/sequencer_fixture.h"

#include "audit/decision_priv.h"
#include "audit/metrics.h"

#define OF_ACME "'ac000000-0000-0000-0000-000000000000'"

/* A decision about acme. */
static struct record about_acme(uint64_t epoch, bool outlasts_grants)
{
    struct record record = test_record(VERDICT_ALLOW);

    decision_free(record.decision);
    record.decision = test_decision(VERDICT_ALLOW, epoch);
    struct decision_parts *parts = &record.decision->parts;
    parts->is_partial = true;
    parts->outlasts_grants = outlasts_grants;
    parts->organisations[parts->organisation_count++] = fixture_acme;
    return record;
}

static enum record_status decided_on_acme(struct sequencer *sequencer, uint64_t epoch, bool outlasts_grants)
{
    struct record record = about_acme(epoch, outlasts_grants);

    sequencer_submit_and_wait(sequencer, &record);
    const enum record_status status = record.status;
    record_done(&record);
    return status;
}

/* Each grant had all decisions of its organisation made again, those of other grants too. */
static void what_was_allowed_outlasts_a_grant(void **state)
{
    struct audit_log log;

    (void)state;
    open_log(&log);
    for (unsigned warm = 0; warm < 3; warm++) assert_int_equal(decided_on_acme(log.sequencer, TEST_EPOCH, true), RECORD_DONE);
    const int64_t before = metric_value(AUDIT_METRIC(audit_beaten));
    (void)database_ask(log.database, "SELECT raise_authorization_epoch_of_grant(" OF_ACME ")");
    assert_int_equal(decided_on_acme(log.sequencer, TEST_EPOCH, true), RECORD_DONE);
    assert_int_equal(metric_value(AUDIT_METRIC(audit_beaten)), before); /* in one round trip */
    assert_int_equal(decided_on_acme(log.sequencer, TEST_EPOCH, false),
                     RECORD_STALE); /* a refusal, or an answer that says what one may do */
    assert_int_equal(decided_on_acme(log.sequencer, TEST_EPOCH, true), RECORD_DONE); /* rights are read for it */
    (void)database_ask(log.database, "SELECT raise_authorization_epoch(" OF_ACME ", false)");
    assert_int_equal(decided_on_acme(log.sequencer, TEST_EPOCH, true), RECORD_STALE);
    assert_int_equal(decided_on_acme(log.sequencer, TEST_EPOCH + 1, true),
                     RECORD_STALE); /* after the grant, before the other change */
    assert_int_equal(decided_on_acme(log.sequencer, TEST_EPOCH + 2, true), RECORD_DONE);
    (void)database_ask(log.database, "SELECT raise_authorization_epoch_of_grant(NULL)");
    assert_int_equal(decided_on_acme(log.sequencer, TEST_EPOCH + 2, true), RECORD_DONE);
    assert_int_equal(decided_on_acme(log.sequencer, TEST_EPOCH + 2, false), RECORD_STALE);
    (void)database_ask(log.database, "SELECT raise_authorization_epoch(NULL, false)");
    assert_int_equal(decided_on_acme(log.sequencer, TEST_EPOCH + 3, true), RECORD_STALE);
    assert_int_equal(decided_on_acme(log.sequencer, TEST_EPOCH + 4, true), RECORD_DONE);
    (void)database_ask(log.database, "SELECT raise_authorization_epoch()");
    assert_int_equal(decided_on_acme(log.sequencer, TEST_EPOCH + 4, true), RECORD_STALE);
    assert_int_equal(decided_on_acme(log.sequencer, TEST_EPOCH + 5, true), RECORD_DONE);
    (void)database_ask(log.database, "SELECT raise_authorization_epoch_of_set()");
    assert_int_equal(decided_on_acme(log.sequencer, TEST_EPOCH + 5, true), RECORD_STALE);
    /* A migration that replaces one of them, and forgets what was taken, would let a decision outlast it. */
    assert_string_equal(
        database_ask(log.database,
                     "SELECT string_agg(oid::regprocedure::text, ' ' ORDER BY proname) FROM pg_proc"
                     " WHERE prosrc ~ 'UPDATE authorization_epoch' AND prosrc !~ 'taken_epoch = (raised|excluded)'"),
        "raise_authorization_epoch_of_grant(uuid) raise_authorization_epoch_of_grants(uuid[])");
    (void)audit_log_check(&log);
    audit_log_close(&log);
}

static struct batched giving(bool outlasts_grants)
{
    struct batched batched = with_change(GIVES, "");

    decision_free(batched.record.decision);
    batched.record.decision = about_acme(TEST_EPOCH, outlasts_grants).decision;
    return batched;
}

static struct batched reading(void)
{
    struct batched batched = {.record = about_acme(TEST_EPOCH, false)};

    return batched;
}

static void done_with(struct batched *records, size_t count)
{
    for (size_t i = 0; i < count; i++) record_done(&records[i].record);
}

/* Reads that came between them are before them in the log, where they were right. */
static void several_grants_end_one_group(void **state)
{
    enum { GRANTS = 3, COUNT = 5 };
    struct audit_log log;

    (void)state;
    open_log(&log);
    struct batched records[COUNT] = {giving(true), reading(), giving(true), reading(), giving(true)};
    for (size_t i = 0; i < COUNT; i += 2) records[i].record.change = &records[i].change.change;
    submit_as_one_group(&log, records, COUNT);
    for (size_t i = 0; i < COUNT; i++) assert_int_equal(records[i].record.status, RECORD_DONE);
    for (size_t i = 1; i < COUNT; i += 2) assert_true(records[i].record.sequence < records[0].record.sequence);
    assert_int_equal(records[4].record.sequence, records[0].record.sequence + 2);
    assert_int_equal(permit_epoch(records[4].record.permit), TEST_EPOCH); /* one group: its state was read once */
    assert_string_equal(database_ask(log.database, "SELECT epoch FROM authorization_epoch"), "4");
    assert_string_equal(
        database_ask(log.database,
                     "SELECT epoch || ' ' || taken_epoch FROM authorization_change WHERE organisation_id = " OF_ACME),
        "4 0");
    done_with(records, COUNT);
    (void)audit_log_check(&log);
    audit_log_close(&log);
}

/* The giver's right was taken by a change that stood before the second grant: that grant is decided again. */
static void no_grant_comes_behind_what_took_the_right(void **state)
{
    enum { COUNT = 3 };
    struct audit_log log;

    (void)state;
    open_log(&log);
    struct batched records[COUNT] = {giving(true), with_change(RAISES, ""), giving(true)};
    attach_changes(records, COUNT);
    submit_as_one_group(&log, records, COUNT);
    assert_int_equal(records[0].record.status, RECORD_DONE);
    /* A decision without a list of organisations depends on every change, so the grant before it has it made again. */
    assert_int_equal(records[1].record.status, RECORD_STALE);
    assert_int_equal(records[2].record.status, RECORD_DONE);
    done_with(records, COUNT);

    struct batched again[COUNT] = {with_change(RAISES, ""), giving(true), giving(true)};
    for (size_t i = 0; i < COUNT; i++) again[i].record.decision->parts.epoch = TEST_EPOCH + 2;
    attach_changes(again, COUNT);
    submit_as_one_group(&log, again, COUNT);
    assert_int_equal(again[0].record.status, RECORD_DONE);
    assert_int_equal(again[1].record.status, RECORD_STALE);
    assert_int_equal(again[2].record.status, RECORD_STALE);
    assert_int_equal(again[1].change.runs + again[2].change.runs, 0);
    done_with(again, COUNT);
    (void)audit_log_check(&log);
    audit_log_close(&log);
}

/* Two officers must be appointed by two persons, which each decision compares: so each such grant is the last change of its group. */
static void grants_that_depend_on_grants_are_decided_one_by_one(void **state)
{
    enum { COUNT = 3 };
    struct audit_log log;

    (void)state;
    open_log(&log);
    struct batched records[COUNT] = {giving(true), giving(false), giving(false)};
    attach_changes(records, COUNT);
    submit_as_one_group(&log, records, COUNT);
    assert_int_equal(records[0].record.status, RECORD_DONE);
    assert_int_equal(records[1].record.status, RECORD_STALE);
    assert_int_equal(records[2].record.status, RECORD_STALE);
    done_with(records, COUNT);
    audit_log_close(&log);
}

static struct batched giving_at_once(uint64_t epoch)
{
    struct batched batched = giving(true);

    batched.record.decision->parts.epoch = epoch;
    batched.change.change.add_all = add_all;
    batched.change.change.take = take;
    return batched;
}

static uint64_t epoch_of(struct audit_log *log)
{
    return strtoull(database_ask(log->database, "SELECT epoch FROM authorization_epoch"), NULL, 10);
}

/* The state of the log is read again after a second, so on a busy machine one grant or another has to read. */
static void a_grant_takes_one_round_trip(void **state)
{
    enum { TRIES = 20 };
    struct audit_log log;
    bool was_at_once = false;

    (void)state;
    open_log(&log);
    for (unsigned i = 0; i < TRIES && !was_at_once; i++) {
        const uint64_t epoch = epoch_of(&log);
        assert_int_equal(decided_on_acme(log.sequencer, epoch, true),
                         RECORD_DONE); /* in the cache: the state, and the heads of its keys */
        struct batched given = giving_at_once(epoch);
        given.record.change = &given.change.change;
        sequencer_submit_and_wait(log.sequencer, &given.record);
        assert_int_equal(given.record.status, RECORD_DONE);
        assert_int_equal(given.change.takes + given.change.runs, 1);
        assert_int_equal(permit_epoch(given.record.permit), epoch); /* so whoever waits for newer rights gets the role */
        assert_int_equal(epoch_of(&log), epoch + 1);
        struct record after = about_acme(epoch, true);
        sequencer_submit_and_wait(log.sequencer, &after);
        assert_int_equal(after.status, RECORD_DONE);
        assert_int_equal(permit_epoch(after.permit), epoch + 1); /* and not that of the cache */
        was_at_once = given.change.takes == 1;
        record_done(&after);
        record_done(&given.record);
    }
    assert_true(was_at_once);
    (void)audit_log_check(&log);
    audit_log_close(&log);
}

/* A read would wait for all of them. They stand behind the reads, in the order in which they came, and those of one group have one epoch. */
static void many_grants_take_several_groups(void **state)
{
    enum { GRANTS = 2 * AUDIT_CHANGES_TOGETHER + 1, COUNT = GRANTS + 1 };
    struct audit_log log;
    struct batched records[COUNT];

    (void)state;
    open_log(&log);
    for (size_t i = 0; i < COUNT; i++)
        records[i] = i < GRANTS ? giving_at_once(TEST_EPOCH) : (struct batched){.record = about_acme(TEST_EPOCH, true)};
    attach_changes(records, GRANTS);
    submit_as_one_group(&log, records, COUNT);
    for (size_t i = 0; i < COUNT; i++) assert_int_equal(records[i].record.status, RECORD_DONE);
    for (size_t i = 1; i < GRANTS; i++) assert_int_equal(records[i].record.sequence, records[0].record.sequence + i);
    assert_int_equal(records[GRANTS].record.sequence, records[0].record.sequence - 1);
    for (size_t i = 0; i < GRANTS; i++) assert_int_equal(records[i].change.takes + records[i].change.runs, 1);
    const uint64_t first = permit_epoch(records[0].record.permit), last = permit_epoch(records[GRANTS - 1].record.permit);
    assert_int_equal(permit_epoch(records[AUDIT_CHANGES_TOGETHER - 1].record.permit),
                     first); /* of one group: all were decided before all */
    assert_true(last > first);
    assert_true(epoch_of(&log) > last);
    done_with(records, COUNT);
    (void)audit_log_check(&log);
    audit_log_close(&log);
}

/* Under the fence of the one round trip, as after reading. */
static void a_grant_at_once_is_decided_again_behind_what_took(void **state)
{
    struct audit_log log;

    (void)state;
    open_log(&log);
    for (unsigned warm = 0; warm < 3; warm++) assert_int_equal(decided_on_acme(log.sequencer, TEST_EPOCH, true), RECORD_DONE);
    (void)database_ask(log.database, "SELECT raise_authorization_epoch(" OF_ACME ", false)");
    struct batched records[] = {giving_at_once(TEST_EPOCH), giving_at_once(TEST_EPOCH + 1), giving_at_once(TEST_EPOCH)};
    attach_changes(records, 3);
    submit_as_one_group(&log, records, 3);
    assert_int_equal(records[0].record.status, RECORD_STALE);
    assert_int_equal(records[1].record.status, RECORD_DONE);
    assert_int_equal(records[2].record.status, RECORD_STALE);
    assert_int_equal(records[0].change.takes + records[2].change.takes, 0);
    assert_int_equal(epoch_of(&log), TEST_EPOCH + 2); /* only the second one gave */
    done_with(records, 3);
    (void)audit_log_check(&log);
    audit_log_close(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_allowed_outlasts_a_grant),
        cmocka_unit_test(several_grants_end_one_group),
        cmocka_unit_test(no_grant_comes_behind_what_took_the_right),
        cmocka_unit_test(grants_that_depend_on_grants_are_decided_one_by_one),
        cmocka_unit_test(a_grant_takes_one_round_trip),
        cmocka_unit_test(many_grants_take_several_groups),
        cmocka_unit_test(a_grant_at_once_is_decided_again_behind_what_took),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
