/* A gateway's cache of the log, and the caches of readers after changes: always right, with or without other gateways. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "audit/decision_priv.h"
#include "audit/metrics.h"
#include "storage/pg_table.h"
#include "tests/support/audit_log.h"

static const struct pg_statement test_raise_sql = {"test_raise", "SELECT raise_authorization_epoch()", "", "int8"};
static const struct pg_statement *const statements[] = {
    &test_raise_sql,
};
static const struct pg_table test_table = PG_TABLE(statements);
static const struct pg_table *const test_tables[] = {&test_table, NULL};

static enum record_status record_at(struct sequencer *sequencer, uint64_t epoch, struct change *change)
{
    struct record record = test_record(VERDICT_ALLOW);

    decision_free(record.decision);
    record.decision = test_decision(VERDICT_ALLOW, epoch);
    record.change = change;
    sequencer_submit_and_wait(sequencer, &record);
    const enum record_status status = record.status;
    record_done(&record);
    return status;
}

static void append(struct sequencer *sequencer, unsigned count)
{
    for (unsigned i = 0; i < count; i++) assert_int_equal(record_at(sequencer, TEST_EPOCH, NULL), RECORD_DONE);
}

static int64_t beaten(void)
{
    return metric_value(AUDIT_METRIC(audit_beaten));
}

/* More than two tiles, so that the cache crosses their ends; audit_log_check() compares everything with the rows. */
static void one_gateway_remembers(void **state)
{
    struct audit_log log;

    (void)state;
    audit_log_open(&log);
    const int64_t before = beaten();
    append(log.sequencer, 600);
    assert_int_equal(beaten(), before);
    assert_int_equal(audit_log_check(&log), 600);
    audit_log_close(&log);
}

static void two_gateways_take_turns(void **state)
{
    struct audit_log log;

    (void)state;
    audit_log_open(&log);
    struct sequencer *second = audit_log_start(&log, "gw2");
    const int64_t before = beaten();
    for (unsigned round = 0; round < 20; round++) {
        append(log.sequencer, 1 + round % 4);
        append(second, 1 + round % 3);
    }
    assert_true(beaten() > before); /* a gateway used a wrong cache, and the fence held */
    sequencer_free(second);
    (void)audit_log_check(&log);
    audit_log_close(&log);
}

static struct result run_nothing(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    (void)change;
    (void)pg;
    (void)permit;
    (void)err;
    return SUCCESS;
}

static struct result run_raise(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    (void)change;
    (void)permit;
    return pg_run(pg, &test_raise_sql, NULL, NULL, err);
}

/* The rights changed at another gateway: the cache must not accept an old decision. */
static void an_old_decision_is_stale(void **state)
{
    struct audit_log log;
    struct change raise = {.run = run_raise, .raises_epoch = true};

    (void)state;
    audit_log_init(&log);
    log.tables = test_tables;
    log.sequencer = audit_log_start(&log, "gw1");
    struct sequencer *second = audit_log_start(&log, "gw2");
    append(log.sequencer, 5);
    assert_int_equal(record_at(second, TEST_EPOCH, &raise), RECORD_DONE);
    assert_int_equal(record_at(log.sequencer, TEST_EPOCH, NULL), RECORD_STALE);
    assert_int_equal(record_at(log.sequencer, TEST_EPOCH + 1, NULL), RECORD_DONE);
    /* The same with SQL: the log's size stays, so only the epoch shows the change. */
    for (unsigned i = 0; i < 5; i++) assert_int_equal(record_at(log.sequencer, TEST_EPOCH + 1, NULL), RECORD_DONE);
    (void)database_ask(log.database, "SELECT raise_authorization_epoch()");
    assert_int_equal(record_at(log.sequencer, TEST_EPOCH + 1, NULL), RECORD_STALE);
    assert_int_equal(record_at(log.sequencer, TEST_EPOCH + 2, NULL), RECORD_DONE);
    sequencer_free(second);
    assert_int_equal(audit_log_check(&log), 13);
    audit_log_close(&log);
}

/* Without sijil-keyd a gateway records what those do whose keys it knows, also behind a change of the registry's rights; behind an erasure it knows no key. */
static void an_erasure_alone_takes_keys_from_memory(void **state)
{
    struct audit_log log;

    (void)state;
    audit_log_open(&log);
    append(log.sequencer, 5);
    (void)database_ask(log.database, "SELECT raise_authorization_epoch()");
    keyd_process_kill(log.keyd);
    assert_int_equal(record_at(log.sequencer, TEST_EPOCH, NULL), RECORD_STALE);
    assert_int_equal(record_at(log.sequencer, TEST_EPOCH + 1, NULL), RECORD_DONE);
    (void)database_ask(log.database, "WITH erased AS (INSERT INTO audit_erasure (pseudonym, asked, begun, ended, key_version)"
                                     " VALUES (repeat('e', 64), 1, 2, 3, 1)) SELECT raise_authorization_epoch()");
    assert_int_equal(record_at(log.sequencer, TEST_EPOCH + 1, NULL), RECORD_STALE);
    assert_int_equal(record_at(log.sequencer, TEST_EPOCH + 2, NULL), RECORD_UNAVAILABLE);
    keyd_process_restart(log.keyd);
    assert_int_equal(record_at(log.sequencer, TEST_EPOCH + 2, NULL), RECORD_DONE);
    assert_true(audit_log_check(&log) >= 7);
    audit_log_close(&log);
}

static const struct uuid acme = {.bytes = {0xac}}, beta = {.bytes = {0xbe}};

/* The outcome of a decision that depends on one organisation, or on two. */
static enum record_status decided_on(struct sequencer *sequencer, uint64_t epoch, const struct uuid *first,
                                     const struct uuid *second)
{
    struct record record = test_record(VERDICT_ALLOW);

    decision_free(record.decision);
    record.decision = test_decision(VERDICT_ALLOW, epoch);
    struct decision_parts *parts = &record.decision->parts;
    parts->is_partial = true;
    parts->organisations[parts->organisation_count++] = *first;
    if (second != NULL) parts->organisations[parts->organisation_count++] = *second;
    sequencer_submit_and_wait(sequencer, &record);
    const enum record_status status = record.status;
    assert_true(status != RECORD_STALE || record.outdated_epoch > 0);
    record_done(&record);
    return status;
}

/* Each change of one tenant's rights made the decisions of all others stale. */
static void a_change_concerns_its_organisation_alone(void **state)
{
    static const char of_acme[] = "SELECT raise_authorization_epoch('ac000000-0000-0000-0000-000000000000', false)";
    static const char of_registry[] = "SELECT raise_authorization_epoch(NULL, false)";
    struct audit_log log;

    (void)state;
    audit_log_open(&log);
    for (unsigned warm = 0; warm < 3; warm++) assert_int_equal(decided_on(log.sequencer, TEST_EPOCH, &acme, &beta), RECORD_DONE);
    (void)database_ask(log.database, of_acme);
    const int64_t before = beaten();
    assert_int_equal(decided_on(log.sequencer, TEST_EPOCH, &beta, NULL), RECORD_DONE); /* in one round trip, as before */
    assert_int_equal(beaten(), before);
    assert_int_equal(decided_on(log.sequencer, TEST_EPOCH, &acme, NULL), RECORD_STALE);
    assert_int_equal(decided_on(log.sequencer, TEST_EPOCH, &beta, &acme), RECORD_STALE);
    assert_int_equal(record_at(log.sequencer, TEST_EPOCH, NULL), RECORD_STALE); /* without a list a decision depends on all */
    assert_int_equal(decided_on(log.sequencer, TEST_EPOCH + 1, &beta, &acme), RECORD_DONE);
    assert_int_equal(decided_on(log.sequencer, TEST_EPOCH, &beta, NULL), RECORD_DONE);
    assert_int_equal(decided_on(log.sequencer, TEST_EPOCH + 2, &beta, NULL), RECORD_STALE); /* of a lost database */
    (void)database_ask(log.database, of_registry);
    assert_int_equal(decided_on(log.sequencer, TEST_EPOCH, &beta, NULL), RECORD_STALE);
    assert_int_equal(decided_on(log.sequencer, TEST_EPOCH + 1, &beta, NULL), RECORD_STALE);
    assert_int_equal(decided_on(log.sequencer, TEST_EPOCH + 2, &beta, NULL), RECORD_DONE);
    (void)database_ask(log.database, "SELECT raise_authorization_epoch()");
    assert_int_equal(decided_on(log.sequencer, TEST_EPOCH + 2, &beta, NULL), RECORD_STALE);
    assert_int_equal(decided_on(log.sequencer, TEST_EPOCH + 3, &beta, NULL), RECORD_DONE);
    (void)audit_log_check(&log);
    audit_log_close(&log);
}

static void changes_reach_who_remembers(void **state)
{
    const struct uuid one = {.bytes = {0, 0, 0, 1}}, two = {.bytes = {0, 0, 0, 2}};
    struct change nothing = {.run = run_nothing, .invalidates = CHANGE_INVALIDATES_NOTHING};
    struct change of_one = {.run = run_nothing, .invalidates = CHANGE_INVALIDATES_REPOSITORY, .repository = one};
    struct change unsaid = {.run = run_nothing};
    struct audit_log log;

    (void)state;
    audit_log_open(&log);
    append(log.sequencer, 3);
    const uint64_t first = sequencer_alterations(log.sequencer, &one), other = sequencer_alterations(log.sequencer, &two);
    append(log.sequencer, 3);
    assert_int_equal(record_at(log.sequencer, TEST_EPOCH, &nothing), RECORD_DONE);
    assert_int_equal(sequencer_alterations(log.sequencer, &one), first);
    assert_int_equal(record_at(log.sequencer, TEST_EPOCH, &of_one), RECORD_DONE);
    assert_int_not_equal(sequencer_alterations(log.sequencer, &one), first);
    assert_int_equal(sequencer_alterations(log.sequencer, &two), other);
    assert_int_equal(record_at(log.sequencer, TEST_EPOCH, &unsaid), RECORD_DONE);
    assert_int_not_equal(sequencer_alterations(log.sequencer, &two), other);
    audit_log_close(&log);
}

/* This gateway knows the change when its next record is done; earlier is not needed. */
static void changes_of_another_gateway_reach_it(void **state)
{
    const struct uuid one = {.bytes = {0, 0, 0, 1}};
    struct change of_one = {.run = run_nothing, .invalidates = CHANGE_INVALIDATES_REPOSITORY, .repository = one};
    struct change nothing = {.run = run_nothing, .invalidates = CHANGE_INVALIDATES_NOTHING};
    struct audit_log log;

    (void)state;
    audit_log_open(&log);
    struct sequencer *second = audit_log_start(&log, "gw2");
    append(log.sequencer, 3);
    uint64_t seen = sequencer_alterations(log.sequencer, &one);
    append(second, 2);
    assert_int_equal(record_at(second, TEST_EPOCH, &nothing), RECORD_DONE);
    append(log.sequencer, 1);
    assert_int_equal(sequencer_alterations(log.sequencer, &one), seen);
    for (unsigned round = 0; round < 4; round++) {
        assert_int_equal(record_at(second, TEST_EPOCH, &of_one), RECORD_DONE);
        append(second, round);
        append(log.sequencer, 1);
        assert_int_not_equal(sequencer_alterations(log.sequencer, &one), seen);
        seen = sequencer_alterations(log.sequencer, &one);
    }
    sequencer_free(second);
    audit_log_close(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_gateway_remembers),
        cmocka_unit_test(two_gateways_take_turns),
        cmocka_unit_test(a_change_concerns_its_organisation_alone),
        cmocka_unit_test(an_old_decision_is_stale),
        cmocka_unit_test(an_erasure_alone_takes_keys_from_memory),
        cmocka_unit_test(changes_reach_who_remembers),
        cmocka_unit_test(changes_of_another_gateway_reach_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
