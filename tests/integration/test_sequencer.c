/* The sequencer with the real PostgreSQL and the real sijil-keyd. */
#include "audit/job_permit.h"
#include "tests/support/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/audit_store.h"
#include "audit/format/checkpoint.h"
#include "audit/format/note.h"
#include "base/clock.h"
#include "base/fault.h"
#include "tests/support/audit_log.h"

/* Waits up to ten seconds for the query to answer so. */
static void wait_for(struct audit_log *log, const char *sql, const char *answer)
{
    const int64_t until_ms = clock_monotonic_ms() + 10000;

    while (strcmp(database_ask(log->database, sql), answer) != 0) {
        if (clock_monotonic_ms() > until_ms) fail_msg("%s: still \"%s\"", sql, database_ask(log->database, sql));
        (void)usleep(20000);
    }
}

static void an_allowed_request_gets_a_permit(void **state)
{
    struct audit_log log;
    struct record record = test_record(VERDICT_ALLOW);

    (void)state;
    audit_log_open(&log);
    sequencer_submit_and_wait(log.sequencer, &record);
    assert_int_equal(record.status, RECORD_DONE);
    assert_non_null(record.permit);
    assert_int_equal(record.sequence, 0);
    assert_int_equal(permit_sequence(record.permit), 0);
    assert_int_equal(permit_epoch(record.permit), TEST_EPOCH);
    permit_require(record.permit, ACTION_BLOB_READ, &decision_pair(record.decision, 0)->resource);
    assert_string_equal(permit_resource(record.permit, ACTION_BLOB_READ)->name, "acme/models/digits");

    struct record later = {.under = record.permit, .outcome = OUTCOME_COMPLETED, .note = "67108864 bytes"};
    sequencer_submit_and_wait(log.sequencer, &later);
    assert_int_equal(later.status, RECORD_DONE);
    assert_int_equal(later.sequence, 1);
    record_done(&later);
    record_done(&record);
    assert_int_equal(audit_log_check(&log), 2);
    assert_string_equal(
        database_ask(log.database, "SELECT convert_from(leaf,'UTF8')::json ->> 'out' FROM audit_entry WHERE seq = 1"),
        "completed");
    assert_string_equal(
        database_ask(log.database, "SELECT count(DISTINCT convert_from(leaf,'UTF8')::json ->> 'actor') FROM audit_entry"), "1");
    assert_string_equal(database_ask(log.database, "SELECT count(*) FROM audit_payload"), "1");
    audit_log_close(&log);
}

static void a_denial_is_recorded_without_a_permit(void **state)
{
    struct audit_log log;
    struct record record = test_record(VERDICT_HIDE);

    (void)state;
    audit_log_open(&log);
    sequencer_submit_and_wait(log.sequencer, &record);
    assert_int_equal(record.status, RECORD_DONE);
    assert_null(record.permit);
    record_done(&record);
    assert_int_equal(audit_log_check(&log), 1);
    assert_string_equal(database_ask(log.database, "SELECT outcome || action FROM audit_entry"), "deniedblob.read");
    assert_string_equal(
        database_ask(log.database, "SELECT convert_from(leaf,'UTF8')::json -> 'why' ->> 'rules' FROM audit_entry"),
        "[\"SYS-NO-BINDING\"]");
    audit_log_close(&log);
}

static void the_leaf_names_nobody(void **state)
{
    struct audit_log log;
    struct record record = test_record(VERDICT_ALLOW);

    (void)state;
    audit_log_open(&log);
    sequencer_submit_and_wait(log.sequencer, &record);
    record_done(&record);
    assert_string_equal(database_ask(log.database,
                                     "SELECT count(*) FROM audit_entry WHERE position('robot' in"
                                     " convert_from(leaf,'UTF8')) > 0 OR position('192.0' in convert_from(leaf,'UTF8')) > 0"),
                        "0");
    assert_string_equal(
        database_ask(log.database, "SELECT count(*) FROM audit_payload WHERE position('robot'::bytea in box) > 0"), "0");
    audit_log_close(&log);
}

static void a_checkpoint_is_signed_soon(void **state)
{
    struct audit_log log;
    struct record record = test_record(VERDICT_ALLOW);
    struct keyd_identity identity;
    struct note_key key;
    struct note note;
    struct checkpoint checkpoint;
    struct error err = {0};

    (void)state;
    audit_log_open(&log);
    sequencer_submit_and_wait(log.sequencer, &record);
    record_done(&record);
    const int64_t started_ms = clock_monotonic_ms();
    wait_for(&log, "SELECT max(size) FROM audit_checkpoint", "1");
    assert_true(clock_monotonic_ms() - started_ms < 4000); /* once a second, plus the time of a slow disk */
    assert_true(keyd_identify(keyd_process_client(log.keyd), &identity, &err).ok);
    assert_int_equal(identity.log_size, 1);
    assert_true(note_key_read(bytes_of_text(identity.log_vkey), &key, &err).ok);
    const char *text = database_ask(log.database, "SELECT note FROM audit_checkpoint");
    assert_true(note_read(bytes_of_text(text), &note, &err).ok);
    assert_true(note_verify(&note, &key, NULL, &err).ok);
    assert_true(checkpoint_read(note.text, &checkpoint, &err).ok);
    assert_string_equal(checkpoint.origin, TEST_ORIGIN);
    assert_int_equal(checkpoint.size, 1);
    assert_true(sequencer_is_ready(log.sequencer, &err));
    audit_log_close(&log);
}

/* Many requests at once: submitted from several threads, each waits for its own. */
struct submitter {
    struct sequencer *sequencer;
    unsigned count;
    unsigned done;
    uint64_t last_sequence;
};

static void *submit_many(void *argument)
{
    struct submitter *submitter = argument;

    for (unsigned i = 0; i < submitter->count; i++) {
        struct record record = test_record(i % 10 == 9 ? VERDICT_DENY : VERDICT_ALLOW);
        sequencer_submit_and_wait(submitter->sequencer, &record);
        if (record.status == RECORD_DONE) submitter->done++;
        record_done(&record);
    }
    return NULL;
}

#define SUBMITTERS 16

static void submit_from_threads(struct sequencer *const *sequencers, size_t sequencer_count, unsigned each)
{
    pthread_t threads[SUBMITTERS];
    struct submitter submitters[SUBMITTERS];

    for (size_t i = 0; i < SUBMITTERS; i++) {
        submitters[i] = (struct submitter){.sequencer = sequencers[i % sequencer_count], .count = each};
        assert_int_equal(pthread_create(&threads[i], NULL, submit_many, &submitters[i]), 0);
    }
    for (size_t i = 0; i < SUBMITTERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(submitters[i].done, each);
    }
}

static void groups_are_contiguous(void **state)
{
    struct audit_log log;

    (void)state;
    audit_log_open(&log);
    submit_from_threads(&log.sequencer, 1, 50);
    assert_int_equal(audit_log_check(&log), 800);
    assert_string_equal(database_ask(log.database, "SELECT count(*) FROM audit_tile"), "3");
    audit_log_close(&log);
}

static void two_gateways_share_one_log(void **state)
{
    struct audit_log log;

    (void)state;
    audit_log_open(&log);
    struct sequencer *sequencers[] = {log.sequencer, audit_log_start(&log, "gw2")};
    submit_from_threads(sequencers, 2, 50);
    sequencer_free(sequencers[1]);
    assert_int_equal(audit_log_check(&log), 800);
    assert_string_equal(
        database_ask(log.database, "SELECT count(DISTINCT convert_from(leaf,'UTF8')::json -> 'src' ->> 0) FROM audit_entry"),
        "2");
    assert_string_equal(database_ask(log.database, "SELECT count(*) FROM audit_tile"), "3");
    audit_log_close(&log);
}

static void a_restart_goes_on(void **state)
{
    struct audit_log log;

    (void)state;
    audit_log_open(&log);
    submit_from_threads(&log.sequencer, 1, 20);
    sequencer_free(log.sequencer);
    assert_string_equal(database_ask(log.database, "SELECT max(size) FROM audit_checkpoint"), "320");
    log.sequencer = audit_log_start(&log, "gw1");
    submit_from_threads(&log.sequencer, 1, 20);
    assert_int_equal(audit_log_check(&log), 640);
    assert_string_equal(
        database_ask(log.database, "SELECT count(DISTINCT convert_from(leaf,'UTF8')::json -> 'src' ->> 1) FROM audit_entry"),
        "2");
    audit_log_close(&log);
}

static void a_stale_decision_goes_back(void **state)
{
    struct audit_log log;
    struct record record = test_record(VERDICT_ALLOW), again = test_record(VERDICT_ALLOW);

    (void)state;
    audit_log_open(&log);
    database_execute(log.database, "SELECT raise_authorization_epoch()");
    sequencer_submit_and_wait(log.sequencer, &record);
    assert_int_equal(record.status, RECORD_STALE);
    assert_null(record.permit);
    record_done(&record);
    decision_free(again.decision);
    again.decision = test_decision(VERDICT_ALLOW, TEST_EPOCH + 1);
    sequencer_submit_and_wait(log.sequencer, &again);
    assert_int_equal(again.status, RECORD_DONE);
    assert_int_equal(again.sequence, 0);
    record_done(&again);
    assert_int_equal(audit_log_check(&log), 1);
    audit_log_close(&log);
}

static void the_server_permits_itself(void **state)
{
    struct audit_log log;
    const struct action_pair pair = {ACTION_SERVER_START, {.kind = RESOURCE_SYSTEM}};
    struct permit *permit = NULL;
    struct error err = {0};

    (void)state;
    audit_log_open(&log);
    database_execute(log.database, "SELECT raise_authorization_epoch()"); /* it is under no epoch */
    assert_true(permit_for_job(log.sequencer, &pair, &permit, &err).ok);
    permit_require(permit, ACTION_SERVER_START, &pair.resource);
    permit_free(permit);
    assert_int_equal(audit_log_check(&log), 1);
    assert_string_equal(database_ask(log.database, "SELECT convert_from(leaf,'UTF8')::json ->> 'actor' FROM audit_entry"),
                        "system");
    audit_log_close(&log);
}

static void the_application_can_change_no_entry(void **state)
{
    static const char *const attempts[] = {
        "UPDATE audit_entry SET leaf = ''",
        "DELETE FROM audit_entry",
        "TRUNCATE audit_entry",
        "UPDATE audit_entry_0 SET ts = 0",
        "DELETE FROM audit_run",
        "UPDATE audit_tile SET level = 9",
        "DELETE FROM audit_checkpoint",
        "UPDATE audit_checkpoint SET size = 9",
        "DROP TABLE audit_entry_0",
        "UPDATE audit_log SET epoch = 7",
        "ALTER TABLE audit_entry DISABLE TRIGGER ALL",
        "SELECT audit_add_partition(3)",
        "INSERT INTO audit_checkpoint (size, root, note, id) OVERRIDING SYSTEM VALUE VALUES (1, sha256(''), '', 1)",
    };
    OWNED(database) *database = database_new();
    char sql[512];

    (void)state;
    for (size_t i = 0; i < COUNT(attempts); i++) {
        (void)snprintf(
            sql, sizeof sql,
            "DO $do$ BEGIN SET ROLE sijil_app; EXECUTE $sql$%s$sql$; RAISE EXCEPTION 'it was allowed: %%', $sql$%s$sql$;"
            " EXCEPTION WHEN insufficient_privilege THEN RESET ROLE; END $do$",
            attempts[i], attempts[i]);
        database_execute(database, sql);
    }
}

/* A log has one name, and each gateway has one. Without them, or with another name, no sequencer starts. */
static void a_log_keeps_its_name(void **state)
{
    struct audit_log log;
    struct sequencer *sequencer = NULL;
    struct error err = {0};

    (void)state;
    audit_log_init(&log);
    assert_false(audit_log_try_start(&log, "", &sequencer, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    struct sequencer_options options = {.conninfo = database_app(log.database), .keyd = keyd_process_client(log.keyd)};
    (void)snprintf(options.instance, sizeof options.instance, "gw1");
    assert_false(sequencer_start(&options, &sequencer, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    (void)snprintf(options.origin, sizeof options.origin, "other.example/audit");
    assert_false(sequencer_start(&options, &sequencer, &err).ok); /* keyd signs for another log */
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_false(audit_log_try_start(&log, "gw1", &sequencer, &err).ok); /* and the database has that name now */
    assert_int_equal(err.kind, ERROR_FORKED);
    assert_null(sequencer);
    audit_log_close(&log);
}

static struct result start_and_stop(void *log, struct error *err)
{
    OWNED(sequencer) *sequencer = NULL;

    TRY_UNTOUCHED_BYTES(sequencer, audit_log_try_start(log, "gw1", &sequencer, err));
    return SUCCESS;
}

/* Every allocation, query and call of a start fails in turn: nothing runs on, and the next start works. */
static void starting_survives_every_failure(void **state)
{
    struct audit_log log;
    unsigned long nth = 1, failures = 0;

    (void)state;
    audit_log_init(&log);
    for (bool has_fired = true; has_fired; nth++) {
        struct error err = {0};

        fault_arm(nth);
        const bool ok = start_and_stop(&log, &err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        if (!ok && !has_fired) fail_msg("%s", err.message);
        if (!ok) assert_true(err.message[0] != '\0'); /* a connection to keyd that breaks is made once more */
        failures += !ok;
    }
    assert_failures(failures, 90);
    assert_int_equal(audit_log_check(&log), 0);
    audit_log_close(&log);
}

/* A group with an unknown outcome must not take effect later, however late it arrives. */
static void who_looks_for_a_group_ends_the_process_that_it_was_sent_to(void **state)
{
    static const struct pg_table *const tables[] = {&audit_append_table, NULL};
    OWNED(pg) *sent_to = NULL, *asking = NULL;
    const struct merkle_hash hash = {{0}};
    struct audit_log log;
    struct error err = {0};
    uint64_t boot = 0;
    bool has = true;

    (void)state;
    audit_log_init(&log);
    assert_true(pg_open(database_app(log.database), tables, &sent_to, &err).ok);
    assert_true(pg_open(database_app(log.database), tables, &asking, &err).ok);
    assert_true(audit_next_boot(sent_to, &boot, &err).ok);
    const struct pg_backend backend = pg_backend(sent_to), nobody = {0}, later = {backend.id, backend.began_us + 1};
    assert_true(audit_has_entry(asking, &later, 0, &hash, &has, &err).ok); /* another one that has its number */
    assert_true(audit_next_boot(sent_to, &boot, &err).ok);
    assert_true(audit_has_entry(asking, &backend, 0, &hash, &has, &err).ok);
    assert_false(has);
    assert_false(audit_next_boot(sent_to, &boot, &err).ok);
    assert_true(pg_is_broken(sent_to));
    assert_true(audit_has_entry(asking, &nobody, 0, &hash, &has, &err).ok);
    pg_free(GIVE(sent_to));
    pg_free(GIVE(asking));
    audit_log_close(&log);
}

/* For an operator before a start, and for a refused start: the message has both sizes and the solution. */
static void what_is_missing_is_said_exactly(void **state)
{
    struct audit_log log;
    struct record record;
    struct error err = {0};
    struct keyd_identity identity;

    (void)state;
    audit_log_open(&log);
    record = test_record(VERDICT_ALLOW);
    sequencer_submit_and_wait(log.sequencer, &record);
    record_done(&record);
    assert_true(keyd_identify(keyd_process_client(log.keyd), &identity, &err).ok);
    identity.log_size = 1;
    assert_true(sequencer_check_identity(database_app(log.database), &identity, &err).ok);
    identity.log_size = 5210;
    assert_false(sequencer_check_identity(database_app(log.database), &identity, &err).ok);
    assert_int_equal(err.kind, ERROR_FORKED);
    if (strstr(err.message, "sijil-keyd signed 5210 events, the log ends at 1 (20") == NULL) fail_msg("%s", err.message);
    if (strstr(err.message, "Restore all up to 5210 (docs/backup.md); if they are lost, two officers sign a new origin") == NULL)
        fail_msg("%s", err.message);
    (void)snprintf(identity.origin, sizeof identity.origin, "another.example/audit");
    assert_false(sequencer_check_identity(database_app(log.database), &identity, &err).ok);
    assert_int_equal(err.kind, ERROR_FORKED);
    assert_non_null(strstr(err.message, "connect to the right ones"));
    audit_log_close(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_looks_for_a_group_ends_the_process_that_it_was_sent_to),
        cmocka_unit_test(an_allowed_request_gets_a_permit),
        cmocka_unit_test(a_log_keeps_its_name),
        cmocka_unit_test(what_is_missing_is_said_exactly),
        cmocka_unit_test(starting_survives_every_failure),
        cmocka_unit_test(a_denial_is_recorded_without_a_permit),
        cmocka_unit_test(the_leaf_names_nobody),
        cmocka_unit_test(a_checkpoint_is_signed_soon),
        cmocka_unit_test(groups_are_contiguous),
        cmocka_unit_test(two_gateways_share_one_log),
        cmocka_unit_test(a_restart_goes_on),
        cmocka_unit_test(a_stale_decision_goes_back),
        cmocka_unit_test(the_server_permits_itself),
        cmocka_unit_test(the_application_can_change_no_entry),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
