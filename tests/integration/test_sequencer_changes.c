/* Changes that share a transaction with their events, floods that are counted in bursts, and counters that become events. */
#include "audit/event_priv.h"
#include "audit/log_cache_priv.h"
#include "tests/integration/sequencer_fixture.h"

static void a_change_and_its_event_are_one(void **state)
{
    struct audit_log log;
    struct batched records[] = {with_change(INSERTS, "one"),   with_change(CONFLICTS, ""),
                                with_change(INSERTS, "two"),   with_change(INSERTS_THEN_FAILS, "half"),
                                with_change(INSERTS, "three"), with_change(BREAKS_A_CONSTRAINT, ""),
                                with_change(INSERTS, "four")};
    static const enum record_status expected[] = {RECORD_DONE, RECORD_REFUSED, RECORD_DONE, RECORD_REFUSED,
                                                  RECORD_DONE, RECORD_REFUSED, RECORD_DONE};

    (void)state;
    open_log(&log);
    attach_changes(records, COUNT(records));
    submit_as_one_group(&log, records, COUNT(records));
    for (size_t i = 0; i < COUNT(records); i++) {
        assert_int_equal(records[i].record.status, expected[i]);
        assert_int_equal(records[i].record.permit != NULL, expected[i] == RECORD_DONE);
        if (expected[i] == RECORD_REFUSED) assert_int_not_equal(records[i].record.error.kind, ERROR_NONE);
    }
    assert_int_equal(records[1].record.error.kind, ERROR_CONFLICT);
    assert_int_equal(records[3].record.error.kind, ERROR_INVALID);
    assert_int_equal(records[5].record.error.kind, ERROR_CONFLICT);
    /* The conflict touched nothing, so it alone cost no second run; each of the other two did. */
    assert_int_equal(records[0].change.runs, 3);
    assert_int_equal(records[1].change.runs, 1);
    assert_int_equal(records[3].change.runs, 1);
    assert_int_equal(records[6].change.runs, 1);
    for (size_t i = 0; i < COUNT(records); i++) record_done(&records[i].record);
    assert_int_equal(audit_log_check(&log), 9);
    assert_string_equal(database_ask(log.database, "SELECT string_agg(name, ' ' ORDER BY name) FROM organisation"),
                        "four one taken three two");
    assert_string_equal(database_ask(log.database, "SELECT string_agg(seq::text, ' ' ORDER BY seq) FROM audit_entry"
                                                   " WHERE outcome = 'failed'"),
                        "3 5 7");
    audit_log_close(&log);
}

/*
 * Waits until the sequencer's cache is too old. The first record makes the group thread read the state again, so the next group
 * has a fresh cache, even on a slow machine.
 */
static void make_at_once(struct batched *records, size_t count)
{
    (void)usleep((LOG_CACHE_SYNC_MS + 100) * 1000);
    attach_changes(records, count);
    for (size_t i = 0; i < count; i++) {
        records[i].change.change.add = add;
        records[i].change.change.take = take;
    }
}

static void check_at_once(const struct batched *records, size_t count, unsigned runs, unsigned takes)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(records[i].record.status, RECORD_DONE);
        assert_int_equal(records[i].change.adds, 1);
        assert_int_equal(records[i].change.runs, runs);
        assert_int_equal(records[i].change.takes, takes);
    }
}

static void a_change_goes_with_its_event_in_one_round_trip(void **state)
{
    struct audit_log log;
    struct batched records[] = {with_change(INSERTS, "one"), with_change(INSERTS, "two")};
    struct batched others[] = {with_change(INSERTS, "three"), with_change(CONFLICTS, ""), with_change(INSERTS, "four")};

    (void)state;
    open_log(&log);
    make_at_once(records, COUNT(records));
    submit_as_one_group(&log, records, COUNT(records));
    check_at_once(records, COUNT(records), 0, 1);

    /* If one change raises an error, the whole group runs again with single statements, and only that change fails. */
    make_at_once(others, COUNT(others));
    submit_as_one_group(&log, others, COUNT(others));
    assert_int_equal(others[1].record.status, RECORD_REFUSED);
    assert_int_equal(others[1].record.error.kind, ERROR_CONFLICT);
    check_at_once(&others[0], 1, 1, 0);
    check_at_once(&others[2], 1, 1, 0);

    for (size_t i = 0; i < COUNT(records); i++) record_done(&records[i].record);
    for (size_t i = 0; i < COUNT(others); i++) record_done(&others[i].record);
    assert_string_equal(database_ask(log.database, "SELECT string_agg(name, ' ' ORDER BY name) FROM organisation"),
                        "four one taken three two");
    assert_string_equal(database_ask(log.database, "SELECT count(*) FROM audit_entry WHERE outcome = 'failed'"), "1");
    assert_int_equal(audit_log_check(&log), 8);
    audit_log_close(&log);
}

/* In one group each change would need a separate round trip under the log's lock. */
static void more_changes_than_one_trip_takes_are_two_groups(void **state)
{
    enum { MANY = 70 }; /* more than AUDIT_CHANGES_IN_ONE_TRIP */
    static struct batched records[MANY];
    struct audit_log log;
    char name[32];

    (void)state;
    open_log(&log);
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof name, "many%u", i);
        records[i] = with_change(INSERTS, name);
    }
    make_at_once(records, MANY);
    submit_as_one_group(&log, records, MANY);
    check_at_once(records, MANY, 0, 1);
    for (size_t i = 0; i < MANY; i++) record_done(&records[i].record);
    assert_string_equal(database_ask(log.database, "SELECT count(*) FROM organisation WHERE name LIKE 'many%'"), "70");
    assert_int_equal(audit_log_check(&log), MANY + 2); /* the start of the log, and the record that delayed the group */
    audit_log_close(&log);
}

static void a_denied_change_is_not_run(void **state)
{
    struct audit_log log;
    struct batched denied = with_change(INSERTS, "denied");

    (void)state;
    open_log(&log);
    record_done(&denied.record);
    denied.record = test_record(VERDICT_DENY);
    attach_changes(&denied, 1);
    submit_batch(log.sequencer, &denied, 1);
    assert_int_equal(denied.record.status, RECORD_DONE);
    assert_int_equal(denied.change.runs, 0);
    record_done(&denied.record);
    audit_log_close(&log);
}

static struct batched concerning(const char *name, const char *subject)
{
    struct batched batched = with_change(INSERTS, name);

    batched.change.change.detail = "consumer external 1";
    batched.change.change.concerns_issuer = REGISTRY_ISSUER;
    batched.change.change.concerns_subject = subject;
    return batched;
}

/* The number of events with this condition. */
static const char *count_of(struct audit_log *log, const char *condition)
{
    char question[256];

    (void)snprintf(question, sizeof question,
                   "SELECT count(*) FROM (SELECT convert_from(leaf, 'UTF8')::json AS e FROM audit_entry) l WHERE %s", condition);
    return database_ask(log->database, question);
}

/*
 * The subject's key may exist or not, and so may the actor's. If it can't be made, the change does not run, because the event
 * could not name the subject.
 */
static void whom_a_change_concerns_has_a_pseudonym(void **state)
{
    struct audit_log log;
    struct batched records[] = {concerning("one", "alice"), concerning("two", "alice"), concerning("three", "robot$acme+ci"),
                                concerning("four", "bob")};
    struct batched known = concerning("five", "bob"), late = concerning("six", "carol");

    (void)state;
    open_log(&log);
    attach_changes(records, COUNT(records));
    records[3].record.context.subject = "dave"; /* neither has a key */
    submit_batch(log.sequencer, records, COUNT(records));
    for (size_t i = 0; i < COUNT(records); i++) {
        assert_int_equal(records[i].record.status, RECORD_DONE);
        record_done(&records[i].record);
    }
    assert_string_equal(count_of(&log, "e->>'res' ~ '#consumer external 1 [0-9a-f]{64}$'"), "4");
    assert_string_equal(count_of(&log, "e->>'res' LIKE '% ' || (e->>'actor')"), "1"); /* whom it concerns did it */
    assert_string_equal(database_ask(log.database, "SELECT count(*) FROM audit_subject"), "4");
    known.record.context.subject = "erin"; /* she has no key, and he has */
    attach_changes(&known, 1);
    submit_batch(log.sequencer, &known, 1);
    assert_int_equal(known.record.status, RECORD_DONE);
    record_done(&known.record);
    assert_string_equal(database_ask(log.database, "SELECT count(*) FROM audit_subject"), "5");

    keyd_process_kill(log.keyd);
    attach_changes(&late, 1);
    submit_batch(log.sequencer, &late, 1);
    assert_int_equal(late.record.status, RECORD_UNAVAILABLE);
    assert_int_equal(late.change.runs, 0);
    record_done(&late.record);
    keyd_process_restart(log.keyd);
    audit_log_close(&log);
}

static void what_was_decided_before_a_change_of_rights_is_decided_again(void **state)
{
    struct audit_log log;
    struct batched records[] = {with_change(INSERTS, "before"), with_change(RAISES, ""), with_change(INSERTS, "after")};

    (void)state;
    open_log(&log);
    attach_changes(records, COUNT(records));
    submit_as_one_group(&log, records, COUNT(records));
    assert_int_equal(records[0].record.status, RECORD_DONE);
    assert_int_equal(records[1].record.status, RECORD_DONE);
    assert_int_equal(records[2].record.status, RECORD_STALE);
    assert_int_equal(records[2].change.runs, 0);
    for (size_t i = 0; i < COUNT(records); i++) record_done(&records[i].record);
    assert_int_equal(audit_log_check(&log), 4);
    assert_string_equal(database_ask(log.database, "SELECT count(*) FROM organisation WHERE name = 'after'"), "0");
    audit_log_close(&log);
}

/* A record with a stale decision leaves the group; the later records get its number. */
static void old_decisions_leave_the_group_that_others_are_in(void **state)
{
    struct batched records[4];
    struct audit_log log;

    (void)state;
    open_log(&log);
    for (size_t i = 0; i < COUNT(records); i++) {
        records[i] = (struct batched){.record = test_record(VERDICT_ALLOW)};
        if (i % 2 == 1) continue;
        decision_free(records[i].record.decision);
        records[i].record.decision = test_decision(VERDICT_ALLOW, TEST_EPOCH + 7);
    }
    submit_as_one_group(&log, records, COUNT(records));
    for (size_t i = 0; i < COUNT(records); i++) {
        assert_int_equal(records[i].record.status, i % 2 == 0 ? RECORD_STALE : RECORD_DONE);
        record_done(&records[i].record);
    }
    assert_int_equal(records[3].record.sequence, records[1].record.sequence + 1);
    assert_true(audit_log_check(&log) > 0);
    audit_log_close(&log);
}

/* An upload began under rights that have ended since: its commit needs a new decision, the record of its end does not. */
static void what_completes_under_a_change_of_rights_is_decided_again(void **state)
{
    struct audit_log log;
    struct record begun = test_record(VERDICT_ALLOW);
    struct test_change stored = {.change = {.run = run}, .behaviour = INSERTS, .name = "stored"};
    struct test_change dropped = {.change = {.run = run}, .behaviour = INSERTS, .name = "dropped"};

    (void)state;
    open_log(&log);
    sequencer_submit_and_wait(log.sequencer, &begun);
    assert_int_equal(begun.status, RECORD_DONE);
    database_execute(log.database, "SELECT raise_authorization_epoch()");
    struct record completes = {.under = begun.permit, .outcome = OUTCOME_COMPLETED, .change = &stored.change};
    struct record says = {.under = begun.permit, .outcome = OUTCOME_COMPLETED, .note = "9 bytes sent"};
    struct record gives_up = {.under = begun.permit, .outcome = OUTCOME_FAILED, .change = &dropped.change};
    sequencer_submit_and_wait(log.sequencer, &completes);
    assert_int_equal(completes.status, RECORD_STALE);
    assert_int_equal(stored.runs, 0);
    sequencer_submit_and_wait(log.sequencer, &says);
    assert_int_equal(says.status, RECORD_DONE);
    sequencer_submit_and_wait(log.sequencer, &gives_up);
    assert_int_equal(gives_up.status, RECORD_DONE);
    assert_int_equal(dropped.runs, 1);
    record_done(&completes);
    record_done(&says);
    record_done(&gives_up);
    record_done(&begun);
    assert_int_equal(audit_log_check(&log), 4);
    audit_log_close(&log);
}

#define FLOOD 2000

static void a_flood_without_credentials_folds(void **state)
{
    static struct batched flood[FLOOD];
    struct audit_log log;
    size_t folded = 0;

    (void)state;
    open_log(&log);
    for (size_t i = 0; i < FLOOD; i++) flood[i] = (struct batched){.record = test_record(VERDICT_CHALLENGE)};
    submit_batch(log.sequencer, flood, FLOOD);
    for (size_t i = 0; i < FLOOD; i++) {
        assert_int_equal(flood[i].record.status, RECORD_DONE);
        assert_null(flood[i].record.permit);
        folded += flood[i].record.is_in_burst ? 1 : 0;
        record_done(&flood[i].record);
    }
    assert_true(folded > FLOOD - 200 && folded < FLOOD);
    /* The opening event exists already, with an upper bound; the exact count follows at the end of the burst. */
    assert_string_equal(database_ask(log.database, "SELECT count(*) FROM audit_entry WHERE action = 'denied.burst'"), "1");
    sequencer_free(log.sequencer);
    log.sequencer = NULL;
    char expected[32];
    (void)snprintf(expected, sizeof expected, "%zu 1", folded);
    assert_string_equal(database_ask(log.database, "SELECT (w ->> 'count') || ' ' || (SELECT count(*) FROM audit_entry o WHERE"
                                                   " o.seq = (w ->> 'opened')::bigint AND o.action = 'denied.burst') FROM"
                                                   " (SELECT convert_from(leaf, 'UTF8')::json -> 'why' AS w FROM audit_entry"
                                                   " WHERE action = 'denied.burst' ORDER BY seq DESC LIMIT 1) t"),
                        expected);
    assert_int_equal(audit_log_check(&log), 1 + FLOOD - folded + 2);
    audit_log_close(&log);
}

#define PROBES 80 /* more than strangers have recorded one by one */

/* A token with too small a scope gets a challenge, but its holder is known and is named. */
static void who_is_known_is_named_and_never_folded(void **state)
{
    static struct batched probes[PROBES];
    struct audit_log log;

    (void)state;
    open_log(&log);
    for (size_t i = 0; i < PROBES; i++) {
        probes[i] = (struct batched){.record = test_record(VERDICT_ALLOW)};
        decision_free(probes[i].record.decision);
        probes[i].record.decision = test_decision(VERDICT_CHALLENGE, TEST_EPOCH);
    }
    submit_batch(log.sequencer, probes, PROBES);
    for (size_t i = 0; i < PROBES; i++) {
        assert_int_equal(probes[i].record.status, RECORD_DONE);
        assert_false(probes[i].record.is_in_burst);
        record_done(&probes[i].record);
    }
    assert_int_equal(audit_log_check(&log), 1 + PROBES);
    /* The same pseudonym, and payloads under the same key, as of what was allowed. */
    assert_string_equal(database_ask(log.database, "SELECT count(DISTINCT convert_from(leaf, 'UTF8')::json ->> 'actor')"
                                                   " || ' ' || count(DISTINCT subject) FROM audit_entry JOIN audit_payload"
                                                   " USING (seq)"),
                        "1 1");
    audit_log_close(&log);
}

static void what_the_server_refused_is_counted(void **state)
{
    struct audit_log log;

    (void)state;
    open_log(&log);
    for (unsigned i = 0; i < 5; i++) sequencer_count_refused(log.sequencer);
    sequencer_free(log.sequencer);
    log.sequencer = NULL;
    assert_string_equal(database_ask(log.database, "SELECT sum((convert_from(leaf, 'UTF8')::json -> 'why' ->> 'count')::int)"
                                                   " FROM audit_entry WHERE action = 'http.refused'"),
                        "5");
    assert_true(audit_log_check(&log) >= 2);
    audit_log_close(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_and_its_event_are_one),
        cmocka_unit_test(a_change_goes_with_its_event_in_one_round_trip),
        cmocka_unit_test(more_changes_than_one_trip_takes_are_two_groups),
        cmocka_unit_test(a_denied_change_is_not_run),
        cmocka_unit_test(whom_a_change_concerns_has_a_pseudonym),
        cmocka_unit_test(what_was_decided_before_a_change_of_rights_is_decided_again),
        cmocka_unit_test(old_decisions_leave_the_group_that_others_are_in),
        cmocka_unit_test(what_completes_under_a_change_of_rights_is_decided_again),
        cmocka_unit_test(a_flood_without_credentials_folds),
        cmocka_unit_test(who_is_known_is_named_and_never_folded),
        cmocka_unit_test(what_the_server_refused_is_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
