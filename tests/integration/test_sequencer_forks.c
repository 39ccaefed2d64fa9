/*
 * An attacker that can write to the database, without a key, can't change the log unnoticed: added, removed, changed and swapped
 * rows.
 */
#include "audit/job_permit.h"
#include "tests/integration/forks_fixture.h"

#include <pthread.h>

#include "audit/format/checkpoint.h"
#include "audit/metrics.h"

/* ---- rows of checkpoints that nobody signed ---- */

#define STRANGE(size) "INSERT INTO audit_checkpoint (size, root, note) VALUES (" size ", decode(repeat('00', 32), 'hex'), 'x');"

static void check_served(const struct audit_log *log, uint64_t size)
{
    const struct keyd_identity identity = identify(log);
    struct signed_checkpoint served, again;
    struct log_keys keys;
    struct error err = {0};

    assert_true(log_keys_read(bytes_of_text(identity.log_vkey), &keys, &err).ok);
    assert_true(sequencer_checkpoint(log->sequencer, &served, &err).ok);
    assert_true(signed_checkpoint_read(&keys, bytes_of_text(served.note), &again, &err).ok);
    assert_true(served.size >= size);
    assert_int_equal(again.size, served.size);
}

static void a_row_that_nobody_signed_turns_signing_off_for_nobody(void **state)
{
    static const char *const roles[] = {"sijil_app", "postgres"};
    struct audit_log log;
    char sql[1024];

    (void)state;
    audit_log_init(&log);
    log.sequencer = start_with_notice(&log);
    record_some(&log, 2);
    wait_until_keyd_signed(&log, 2);
    for (uint64_t i = 0; i < COUNT(roles); i++) {
        const uint64_t size = 2 + 4 * i;
        (void)snprintf(
            sql, sizeof sql,
            "SET ROLE %s; " STRANGE(
                "1000000000 + %u") "INSERT INTO audit_checkpoint (size, root, note)"
                                   " SELECT n, decode(repeat('00', 32), 'hex'), 'x' FROM generate_series(%u, %u) AS n; RESET ROLE",
            roles[i], (unsigned)i, (unsigned)size + 1, (unsigned)size + 4);
        database_execute(log.database, sql);
        record_some(&log, 4);
        wait_until_keyd_signed(&log, size + 4);
    }
    while (atomic_load(&notices) == 0) (void)usleep(20000);
    stop(&log);
    assert_int_equal(identify(&log).log_size, 10);
    log.sequencer = start_with_notice(&log); /* nor over a restart */
    check_served(&log, 10);
    record_some(&log, 2);
    wait_until_keyd_signed(&log, 12);
    wait_for_answer(&log, "SELECT count(*) FROM audit_checkpoint WHERE size = 12 AND note <> 'x'", "1");
    check_served(&log, 12);
    stop(&log);
    assert_string_equal(database_ask(log.database, "SELECT size FROM audit_log"), "12"); /* in order: all is signed */
    assert_int_equal(identify(&log).log_size, 12);

    /* Acknowledged entries are cut off while no gateway runs. */
    database_execute(log.database,
                     "DELETE FROM audit_entry WHERE seq >= 2; DELETE FROM audit_payload WHERE seq >= 2;"
                     " DELETE FROM audit_run WHERE last >= 2; DELETE FROM audit_checkpoint WHERE note <> 'x' AND size > 2;"
                     " UPDATE audit_log SET size = 2, last_ts = (SELECT ts FROM audit_entry WHERE seq = 1), frontier ="
                     " (SELECT sha256('\\x01'::bytea || a.leaf_hash || b.leaf_hash) FROM audit_entry a, audit_entry b"
                     " WHERE a.seq = 0 AND b.seq = 1)");
    start_is_refused(&log, "truncated");
    audit_log_close(&log);
}

/* A note that was copied into another row proves nothing against the log. */
static void a_true_note_in_another_row_means_nothing(void **state)
{
    struct audit_log log;

    (void)state;
    audit_log_open(&log);
    record_some(&log, 5);
    wait_until_keyd_signed(&log, 5);
    stop(&log);
    database_execute(log.database, "UPDATE audit_checkpoint SET size = size + 100 WHERE size = 5"); /* a true note, elsewhere */
    log.sequencer = audit_log_start(&log, "gw1");
    stop(&log);
    audit_log_close(&log);
}

/* ---- what the last signature does not cover ---- */

static void the_unsigned_tail_is_read_leaf_by_leaf(void **state)
{
    struct audit_log log;

    (void)state;
    audit_log_open(&log);
    record_some(&log, 2);
    wait_until_keyd_signed(&log, 2);
    keyd_process_kill(log.keyd);
    record_some(&log, 2);
    stop(&log); /* and can't have it signed */
    keyd_process_restart(log.keyd);
    assert_int_equal(identify(&log).log_size, 2);
    database_execute(log.database, "CREATE TABLE old_entry AS TABLE audit_entry; UPDATE audit_entry SET leaf ="
                                   " convert_to(replace(convert_from(leaf, 'UTF8'), 'digits', 'digitz'), 'UTF8') WHERE seq = 3");
    start_is_refused(&log, "entry 3");
    database_execute(log.database, "UPDATE audit_entry e SET leaf = o.leaf FROM old_entry o WHERE e.seq = o.seq");
    log.sequencer = audit_log_start(&log, "gw1");
    assert_int_equal(identify(&log).log_size, 4); /* signed before anything is served */
    audit_log_close(&log);
}

/* The row of event 3, its hash and the state's frontier are changed so that all fit each other; there is no tile yet. No key is in what is changed,
 * or the next append under this key would notice. */
#define HASH(seq)  "(SELECT leaf_hash FROM audit_entry WHERE seq = " seq ")"
#define NODE(a, b) "sha256('\\x01'::bytea || " a " || " b ")"
#define REWRITE_LAST_OF_FOUR                                                                                      \
    "UPDATE audit_entry SET leaf = convert_to(replace(convert_from(leaf, 'UTF8'), '\"gw1\"', '\"gw9\"'), 'UTF8')" \
    " WHERE seq = 3; UPDATE audit_entry SET leaf_hash = sha256('\\x00'::bytea || leaf) WHERE seq = 3;"            \
    " UPDATE audit_log SET frontier = " NODE(NODE(HASH("0"), HASH("1")), NODE(HASH("2"), HASH("3")))

static void wait_for_loss(const struct sequencer *sequencer)
{
    const int64_t until_ms = clock_monotonic_ms() + 20000;
    struct error err = {0};

    while (strstr(err.message, "has acknowledged") == NULL) {
        if (clock_monotonic_ms() > until_ms) fail_msg("it does not notice: %s", err.message);
        (void)usleep(20000);
        if (sequencer_is_ready(sequencer, &err)) err = (struct error){0};
    }
    assert_int_equal(err.kind, ERROR_FORKED);
}

static void wait_for_failed_rounds(int64_t count)
{
    const int64_t until = metric_value(AUDIT_METRIC(audit_sign_failures)) + count, until_ms = clock_monotonic_ms() + 20000;

    while (metric_value(AUDIT_METRIC(audit_sign_failures)) < until) {
        if (clock_monotonic_ms() > until_ms) fail_msg("no round of the signer fails");
        (void)usleep(20000);
    }
}

/* Found by the model of tests/model/log.pml: the signer took the changed state for its own. */
static void what_was_acknowledged_is_not_replaced_before_it_is_signed(void **state)
{
    struct audit_log log;

    (void)state;
    audit_log_open(&log);
    record_some(&log, 2);
    wait_until_keyd_signed(&log, 2);
    keyd_process_kill(log.keyd);
    record_some(&log, 2);
    database_execute(log.database, REWRITE_LAST_OF_FOUR);
    keyd_process_restart(log.keyd);
    wait_for_loss(log.sequencer);
    assert_int_equal(identify(&log).log_size, 2);
    audit_log_close(&log);
}

/* Rounds that find the log whole, but get no signature, say nothing about the log of the next round. */
static void a_round_without_a_signature_does_not_settle_what_was_acknowledged(void **state)
{
    struct audit_log log;

    (void)state;
    audit_log_open(&log);
    record_some(&log, 2);
    wait_until_keyd_signed(&log, 2);
    keyd_process_kill(log.keyd);
    record_some(&log, 2);
    wait_for_failed_rounds(3);
    database_execute(log.database, REWRITE_LAST_OF_FOUR);
    keyd_process_restart(log.keyd);
    wait_for_loss(log.sequencer);
    assert_int_equal(identify(&log).log_size, 2);
    audit_log_close(&log);
}

/* Another gateway goes on behind the changed event, and may have it signed. */
static void whoever_has_acknowledged_an_event_looks_for_it(void **state)
{
    struct audit_log log;

    (void)state;
    audit_log_open(&log);
    record_some(&log, 2);
    struct sequencer *first = log.sequencer, *second = audit_log_start(&log, "gw2");
    log.sequencer = second;
    record_some(&log, 1); /* it needs no key of sijil-keyd afterwards */
    wait_until_keyd_signed(&log, 3);
    keyd_process_kill(log.keyd);
    log.sequencer = first;
    record_some(&log, 1);
    database_execute(log.database, REWRITE_LAST_OF_FOUR);
    log.sequencer = second;
    record_some(&log, 1);
    log.sequencer = first;
    keyd_process_restart(log.keyd);
    wait_for_loss(first);
    sequencer_free(second);
    audit_log_close(&log);
}

/* The results of a second thread. The test itself checks them, because cmocka works in one thread only. */
struct recorder {
    const struct audit_log *log;
    atomic_bool is_over;
    unsigned recorded;
    struct error found; /* ERROR_NONE, or the error that the log is not as signed */
};

/* Tries again if the machine is too slow for a moment. */
static void *record_until_told(void *argument)
{
    struct recorder *recorder = argument;

    while (!atomic_load(&recorder->is_over) && recorder->found.kind == ERROR_NONE) {
        struct record record = test_record(VERDICT_ALLOW);
        sequencer_submit_and_wait(recorder->log->sequencer, &record);
        if (record.status == RECORD_DONE) recorder->recorded++;
        if (record.status != RECORD_DONE && record.error.kind == ERROR_FORKED) recorder->found = record.error;
        record_done(&record);
    }
    return NULL;
}

/* keyd answers the slower of two gateways with a conflict: that is not a fork, and does not prevent a start. */
static void gateways_start_while_others_have_the_log_signed(void **state)
{
    struct audit_log log;
    struct sequencer *others[4];
    struct error err = {0};
    struct recorder recorder = {.log = &log};
    pthread_t thread;

    (void)state;
    audit_log_open(&log);
    for (size_t i = 0; i < COUNT(others); i++) others[i] = audit_log_start(&log, "other");
    assert_int_equal(pthread_create(&thread, NULL, record_until_told, &recorder), 0);
    for (unsigned i = 0; i < 30; i++) sequencer_free(audit_log_start(&log, "new"));
    atomic_store(&recorder.is_over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (recorder.found.kind != ERROR_NONE) fail_msg("%s", recorder.found.message);
    assert_true(recorder.recorded > 0);
    for (size_t i = 0; i < COUNT(others); i++) {
        assert_true(sequencer_is_ready(others[i], &err));
        sequencer_free(others[i]);
    }
    audit_log_close(&log);
}

static struct permit *auditor(struct audit_log *log)
{
    const struct action_pair pair = {ACTION_AUDIT_READ, {.kind = RESOURCE_SYSTEM}};
    struct permit *permit = NULL;
    struct error err = {0};

    if (!permit_for_job(log->sequencer, &pair, &permit, &err).ok) fail_msg("%s", err.message);
    return permit;
}

/* An attack: the row would decide the next number, and keyd would sign it. */
static void no_row_decides_the_next_number(void **state)
{
    struct audit_log log;

    (void)state;
    audit_log_open(&log);
    record_some(&log, 3);
    struct record stranger = test_record(VERDICT_CHALLENGE); /* under other keys */
    sequencer_submit_and_wait(log.sequencer, &stranger);
    record_done(&stranger);
    assert_string_equal(database_ask(log.database, "SELECT size FROM audit_log"), "4");
    database_execute(log.database,
                     "SET ROLE sijil_app; INSERT INTO audit_run SELECT key, 3, 777777, '{3}' FROM audit_run GROUP BY key"
                     " HAVING max(last) = 2; RESET ROLE");
    stop(&log);
    log.sequencer = audit_log_start(&log, "gw1"); /* which has no numbers in memory */
    struct record record = test_record(VERDICT_ALLOW);
    sequencer_submit_and_wait(log.sequencer, &record);
    if (record.status != RECORD_UNAVAILABLE || record.error.kind != ERROR_FORKED)
        fail_msg("%d: %s", (int)record.status, record.error.message);
    record_done(&record);
    assert_string_equal(database_ask(log.database, "SELECT count(*) FROM audit_entry WHERE position('77777'::bytea IN leaf) > 0"),
                        "0");
    audit_log_close(&log);
}

static void what_does_not_verify_is_not_served(void **state)
{
    struct audit_log log;
    struct buffer OWNED_BUFFER proof = BUFFER(65536);
    const struct audit_filter filter = {.key = "out:denied", .until = 100, .limit = 100};
    struct signed_checkpoint checkpoint;
    struct error err = {0};

    (void)state;
    audit_log_open(&log);
    record_some(&log, 300);
    OWNED(permit) *permit = auditor(&log);
    wait_until_keyd_signed(&log, 300);
    do assert_true(sequencer_checkpoint(log.sequencer, &checkpoint, &err).ok);
    while (checkpoint.size < 300);
    OWNED(pg) *pg = checker(&log);
    OWNED(audit_page) *page = NULL;
    assert_true(audit_prove(permit, pg, 5, &checkpoint, &proof, &err).ok);
    buffer_clear(&proof);
    database_execute(log.database,
                     "CREATE TABLE old_tile AS TABLE audit_tile; UPDATE audit_tile SET hashes = set_byte(hashes, 8000, 1)");
    assert_false(audit_prove(permit, pg, 5, &checkpoint, &proof, &err).ok);
    assert_int_equal(err.kind, ERROR_FORKED);
    assert_int_equal(proof.length, 0);
    database_execute(log.database, "UPDATE audit_tile SET hashes = o.hashes FROM old_tile o; UPDATE audit_entry SET leaf ="
                                   " convert_to(replace(convert_from(leaf, 'UTF8'), 'digits', 'digitz'), 'UTF8') WHERE seq = 5");
    assert_false(audit_prove(permit, pg, 5, &checkpoint, &proof, &err).ok);
    assert_int_equal(err.kind, ERROR_FORKED);
    /* If the index lists an event under a foreign key, an auditor still does not see events of others. */
    database_execute(log.database, "INSERT INTO audit_run SELECT key, 10, 1000, '{7}' FROM audit_run WHERE key ="
                                   " substr(sha256('out:denied'), 1, 16) ORDER BY last LIMIT 1");
    err = (struct error){0};
    assert_false(audit_list(permit, pg, &filter, &page, &err).ok);
    assert_int_equal(err.kind, ERROR_FORKED);
    audit_log_close(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_that_nobody_signed_turns_signing_off_for_nobody),
        cmocka_unit_test(a_true_note_in_another_row_means_nothing),
        cmocka_unit_test(the_unsigned_tail_is_read_leaf_by_leaf),
        cmocka_unit_test(what_was_acknowledged_is_not_replaced_before_it_is_signed),
        cmocka_unit_test(a_round_without_a_signature_does_not_settle_what_was_acknowledged),
        cmocka_unit_test(whoever_has_acknowledged_an_event_looks_for_it),
        cmocka_unit_test(what_does_not_verify_is_not_served),
        cmocka_unit_test(no_row_decides_the_next_number),
        cmocka_unit_test(gateways_start_while_others_have_the_log_signed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
