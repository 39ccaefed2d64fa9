/*
 * The sequencer while the n-th allocation, query or call for keys fails in any of its threads: acknowledged records are in the
 * log exactly once, all others are counted, and it recovers by itself.
 */
#include "tests/integration/sequencer_outcomes_fixture.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/fault.h"

#define FOR_EVER (UINT64_C(1) << 40)

/* Of each kind, evenly spread over its places, the first among them; with SIJIL_FAULTS_ALL=1 all places are tried. */
#define SAMPLES      4
#define SAMPLES_STOP 2 /* each starts a sequencer, and stops it */

static const enum fault_kind kinds_tried[] = {FAULT_MEMORY, FAULT_QUERY, FAULT_SOCKET};
static struct fault_plan plan;

static void arm(enum fault_kind kind, uint64_t first, uint64_t last)
{
    atomic_store(&plan.kinds, 0);
    atomic_store(&plan.asked, 0);
    for (size_t i = 0; i < FAULT_KINDS; i++) atomic_store(&plan.fired[i], 0);
    atomic_store(&plan.first, first);
    atomic_store(&plan.last, last);
    atomic_store(&plan.kinds, UINT64_C(1) << kind);
}

/* The number of tried places, and the places. */
static uint64_t tries_of(uint64_t places, uint64_t samples)
{
    const char *all = getenv("SIJIL_FAULTS_ALL");

    return places <= samples || (all != NULL && strcmp(all, "1") == 0) ? places : samples;
}

static uint64_t place_of(uint64_t try, uint64_t tries, uint64_t places)
{
    return 1 + try * places / tries;
}

/* How many failures there were. */
static uint64_t disarm(void)
{
    uint64_t fired = 0;

    atomic_store(&plan.kinds, 0);
    for (size_t i = 0; i < FAULT_KINDS; i++) fired += atomic_load(&plan.fired[i]);
    return fired;
}

/* One of each kind: allowed, with a change, denied, of a stranger, and with a change that is refused. */
static void make_batch(struct batched records[TOGETHER])
{
    static unsigned number;
    char name[32];

    (void)snprintf(name, sizeof name, "o%u", number++);
    records[0] = (struct batched){.record = test_record(VERDICT_ALLOW)};
    records[1] = with_change(INSERTS, name);
    records[2] = (struct batched){.record = test_record(VERDICT_DENY)};
    records[3] = (struct batched){.record = test_record(VERDICT_CHALLENGE)};
    records[4] = with_change(CONFLICTS, "");
    records[1].record.change = &records[1].change.change;
    records[4].record.change = &records[4].change.change;
    for (size_t i = 0; i < TOGETHER; i++) name_request(&records[i].record);
}

/* Records one batch while the places from `first` to `last` fail. Returns the number of passed places, and whether one failed. */
static uint64_t batch_while(struct audit_log *log, struct outcome_list *list, enum fault_kind kind, uint64_t first, uint64_t last,
                            bool *fired_out)
{
    struct batched records[TOGETHER];

    make_batch(records);
    arm(kind, first, last);
    submit_batch(log->sequencer, records, TOGETHER);
    const uint64_t asked = atomic_load(&plan.asked);
    *fired_out = disarm() > 0;
    note_batch(list, records);
    return asked;
}

/* Records a batch for each tried place, which fails alone or together with all later ones. Returns the number of failures. */
static size_t fail_places(struct audit_log *log, struct outcome_list *list, enum fault_kind kind, bool lasts)
{
    bool fired = false;
    size_t failures = 0;

    (void)batch_while(log, list, kind, 0, 0, &fired); /* first everything that is made only once, then the counts */
    const uint64_t places = batch_while(log, list, kind, 0, 0, &fired), tries = tries_of(places, SAMPLES);
    for (uint64_t i = 0; i < tries; i++) {
        const uint64_t nth = place_of(i, tries, places);
        (void)batch_while(log, list, kind, nth, lasts ? FOR_EVER : nth, &fired);
        failures += fired ? 1 : 0;
        if (lasts) wait_until_recorded(log, list);
        else if (i % 5 == 4) sequencer_count_refused(log->sequencer);
    }
    print_message("kind %d: %zu of %llu places\n", (int)kind, failures, (unsigned long long)places);
    return failures;
}

static void one_failure_in_any_thread_is_survived(void **state)
{
    static struct outcome_list list;
    struct audit_log log;

    (void)state;
    list.count = 0;
    open_with_deadline(&log, 5000);
    for (size_t i = 0; i < COUNT(kinds_tried); i++) {
        const size_t failures = fail_places(&log, &list, kinds_tried[i], false);
        assert_true(kinds_tried[i] == FAULT_SOCKET || failures > SAMPLES / 2); /* not each batch passes as many */
    }
    wait_until_recorded(&log, &list);
    stop_and_check(&log, &list);
    print_message("%zu records, %zu answered 503\n", list.count, list.unavailable);
    assert_true(list.unavailable < list.count / 2);
    audit_log_close(&log);
}

/* From the n-th query on nothing works until the records have waited too long: the last statement may have taken effect. */
static void a_database_away_for_longer_than_anybody_waits(void **state)
{
    static struct outcome_list list;
    struct audit_log log;

    (void)state;
    list.count = 0;
    open_with_deadline(&log, 400);
    wait_until_recorded(&log, &list);
    const size_t failures = fail_places(&log, &list, FAULT_QUERY, true);
    stop_and_check(&log, &list);
    print_message("%zu records, %zu answered 503\n", list.count, list.unavailable);
    assert_true(failures > SAMPLES / 2);
    audit_log_close(&log);
}

/*
 * The group is cut off while it waits, with its COMMIT, and its outcome is known only after all records were given up: it never
 * took effect.
 */
static void a_group_that_is_cut_off_and_did_not_come_true(void **state)
{
    struct batched records[TOGETHER];
    struct outcome_list list = {.count = 0};
    struct audit_log log;
    struct batch batch;

    (void)state;
    open_with_deadline(&log, 400);
    wait_until_recorded(&log, &list);
    hold_log(&log);
    make_batch(records);
    begin_batch(log.sequencer, &batch, records, TOGETHER);
    (void)usleep(100000); /* it is sent, and waits for the log */
    arm(FAULT_QUERY, 1, FOR_EVER);
    database_disconnect_all(log.database);
    await_batch(&batch);
    (void)disarm();
    database_reconnect(log.database);
    for (size_t i = 0; i < TOGETHER; i++) assert_int_equal(records[i].record.status, RECORD_UNAVAILABLE);
    note_batch(&list, records);
    wait_until_recorded(&log, &list);
    stop_and_check(&log, &list);
    audit_log_close(&log);
}

/*
 * Stops a separate sequencer, with work of each kind, while the places from `first` to `last` fail. Returns the number of passed
 * places.
 */
static uint64_t stop_while(struct audit_log *log, enum fault_kind kind, uint64_t first, uint64_t last)
{
    static struct outcome_list list;
    struct batched flood[60], waiting[TOGETHER];
    struct batch batch;

    list.count = 0;
    log->sequencer = audit_log_start(log, "gw1");
    for (size_t i = 0; i < COUNT(flood); i++) flood[i] = (struct batched){.record = test_record(VERDICT_CHALLENGE)};
    submit_batch(log->sequencer, flood, COUNT(flood));
    for (size_t i = 0; i < COUNT(flood); i++) record_done(&flood[i].record);
    wait_until_recorded(log, &list);
    sequencer_count_refused(log->sequencer);
    make_batch(waiting);
    begin_batch(log->sequencer, &batch, waiting, TOGETHER);
    arm(kind, first, last);
    const int64_t started_ms = clock_monotonic_ms();
    stop(log);
    const uint64_t asked = atomic_load(&plan.asked);
    (void)disarm();
    assert_in_range(clock_monotonic_ms() - started_ms, 0, 15000);
    assert_int_equal(batch.left, 0);
    for (size_t i = 0; i < TOGETHER; i++) record_done(&waiting[i].record);
    assert_int_equal(entries_of(log, &list.records[list.count - 1]), 1);
    return asked;
}

/* Waiting records, bursts and counts at the stop: each is recorded completely or not at all, and the sequencer stops. */
static void stopping_survives_every_failure(void **state)
{
    struct audit_log log;

    (void)state;
    audit_log_init(&log);
    log.tables = test_tables;
    log.deadline_ms = 2000;
    for (size_t i = 0; i < COUNT(kinds_tried); i++) {
        const enum fault_kind kind = kinds_tried[i];
        (void)stop_while(&log, kind, 0, 0);
        const uint64_t places = stop_while(&log, kind, 0, 0), tries = tries_of(places, SAMPLES_STOP);
        for (uint64_t try = 0; try < tries; try++) {
            const uint64_t nth = place_of(try, tries, places);
            (void)stop_while(&log, kind, nth, nth);
            (void)stop_while(&log, kind, nth, FOR_EVER);
        }
        print_message("kind %d: %llu of %llu places\n", (int)kind, (unsigned long long)tries, (unsigned long long)places);
        assert_true(places > 0);
    }
    assert_true(audit_log_check(&log) > 0);
    audit_log_close(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_failure_in_any_thread_is_survived),
        cmocka_unit_test(a_database_away_for_longer_than_anybody_waits),
        cmocka_unit_test(a_group_that_is_cut_off_and_did_not_come_true),
        cmocka_unit_test(stopping_survives_every_failure),
    };

    fault_follow(&plan, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
