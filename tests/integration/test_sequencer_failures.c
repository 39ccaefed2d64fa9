/* Acknowledged records survive, and all others are counted: PostgreSQL and keyd are killed, stopped and restored. */
#include "tests/support/unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/format/leaf.h"
#include "base/clock.h"
#include "tests/support/audit_log.h"

/* A server of this test's own: others must not be disturbed. */
static char server[512];

static void server_do(const char *action)
{
    char command[2048];

    (void)snprintf(command, sizeof command, "'%s' %s '%s'%s%s%s", POSTGRES_SH, action, server,
                   strcmp(action, "start") == 0 ? " '" : "", strcmp(action, "start") == 0 ? MIGRATE_TOOL : "",
                   strcmp(action, "start") == 0 ? "'" : "");
    if (strcmp(action, "start") == 0)
        (void)snprintf(command + strlen(command), sizeof command - strlen(command), " %d", (int)getpid());
    if (system(command) != 0) fail_msg("%s failed", command);
}

#define SUBMITTERS       8
#define ACKNOWLEDGED_MAX 40000

struct acknowledged {
    uint64_t sequence;
    char request[UUID_TEXT_SIZE];
};

struct load {
    struct sequencer *sequencer;
    atomic_bool stop;
    atomic_size_t count, unavailable;
    struct acknowledged list[ACKNOWLEDGED_MAX];
};

static void *submit_until_stopped(void *argument)
{
    struct load *load = argument;

    while (!atomic_load(&load->stop)) {
        struct record record = test_record(VERDICT_ALLOW);
        const struct uuid id = uuid_random();
        uuid_format(&id, record.context.request_id);
        sequencer_submit_and_wait(load->sequencer, &record);
        if (record.status == RECORD_DONE) {
            const size_t place = atomic_fetch_add(&load->count, 1);
            assert_true(place < ACKNOWLEDGED_MAX);
            load->list[place].sequence = record.sequence;
            memcpy(load->list[place].request, record.context.request_id, UUID_TEXT_SIZE);
        } else {
            atomic_fetch_add(&load->unavailable, 1);
        }
        record_done(&record);
    }
    return NULL;
}

static void wait_for_more(const struct load *load, size_t before)
{
    const int64_t until_ms = clock_monotonic_ms() + 30000;

    while (atomic_load(&load->count) <= before + 20) {
        if (clock_monotonic_ms() > until_ms) fail_msg("nothing is recorded any more");
        (void)usleep(20000);
    }
}

static void check_acknowledged(struct audit_log *log, const struct load *load)
{
    const size_t count = atomic_load(&load->count);
    char sql[256];

    for (size_t i = 0; i < count; i++) {
        (void)snprintf(sql, sizeof sql, "SELECT convert_from(leaf, 'UTF8')::json ->> 'req' FROM audit_entry WHERE seq = %llu",
                       (unsigned long long)load->list[i].sequence);
        assert_string_equal(database_ask(log->database, sql), load->list[i].request);
    }
    /* No event was recorded twice because its first answer was lost. */
    assert_string_equal(database_ask(log->database,
                                     "SELECT count(*) FROM (SELECT convert_from(leaf, 'UTF8')::json ->> 'req' AS r"
                                     " FROM audit_entry WHERE action = 'blob.read') t GROUP BY r HAVING count(*) > 1"),
                        "");
}

static void wait_until_recorded(struct audit_log *log, unsigned timeout_ms)
{
    const int64_t until_ms = clock_monotonic_ms() + timeout_ms;
    enum record_status status = RECORD_UNAVAILABLE;

    while (status != RECORD_DONE) {
        struct record record = test_record(VERDICT_ALLOW);
        sequencer_submit_and_wait(log->sequencer, &record);
        status = record.status;
        if (status != RECORD_DONE && clock_monotonic_ms() > until_ms) fail_msg("still: %s", record.error.message);
        record_done(&record);
    }
}

#define KILLS 5

static void a_killed_database_loses_nothing_acknowledged(void **state)
{
    static struct load load;
    struct audit_log log;
    pthread_t threads[SUBMITTERS];
    size_t before = 0;

    (void)state;
    audit_log_open(&log);
    load.sequencer = log.sequencer;
    for (size_t i = 0; i < SUBMITTERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, submit_until_stopped, &load), 0);
    for (unsigned round = 0; round < KILLS; round++) {
        wait_for_more(&load, before); /* it came back by itself */
        (void)usleep(100000 + 37000 * round);
        server_do("crash");
        server_do("restart");
        before = atomic_load(&load.count);
    }
    wait_for_more(&load, before);
    atomic_store(&load.stop, true);
    for (size_t i = 0; i < SUBMITTERS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    sequencer_free(log.sequencer);
    log.sequencer = NULL;
    database_reconnect(log.database);
    const uint64_t size = audit_log_check(&log);
    assert_true(size >= atomic_load(&load.count));
    check_acknowledged(&log, &load);
    print_message("%zu events acknowledged over %d kills, log of %llu, %zu answered 503\n", atomic_load(&load.count), KILLS,
                  (unsigned long long)size, atomic_load(&load.unavailable));
    audit_log_close(&log);
}

static void a_database_that_stands_still_means_503_in_time(void **state)
{
    struct audit_log log;
    struct record first = test_record(VERDICT_ALLOW), second = test_record(VERDICT_ALLOW);
    struct error err = {0};

    (void)state;
    audit_log_init(&log);
    log.deadline_ms = 1500;
    log.sequencer = audit_log_start(&log, "gw1");
    wait_until_recorded(&log, 5000);
    server_do("pause"); /* until both have an answer: a caller of the database waits for ever */
    const int64_t started_ms = clock_monotonic_ms();
    sequencer_submit_and_wait(log.sequencer, &first);
    assert_int_equal(first.status, RECORD_UNAVAILABLE);
    assert_true(clock_monotonic_ms() - started_ms >= 1400);
    assert_false(sequencer_is_ready(log.sequencer, &err));
    sequencer_submit_and_wait(log.sequencer, &second);
    assert_int_equal(second.status, RECORD_UNAVAILABLE);
    server_do("resume");
    record_done(&first);
    record_done(&second);
    wait_until_recorded(&log, 10000);
    sequencer_free(log.sequencer);
    log.sequencer = NULL;
    /* Each record with the answer 503 is counted once, and leaves a gap in the gateway's numbering. */
    const char *counted = database_ask(log.database, "SELECT sum((convert_from(leaf, 'UTF8')::json -> 'why' ->> 'count')::int)"
                                                     " FROM audit_entry WHERE action = 'log.unrecorded'");
    assert_true(strtol(counted, NULL, 10) >= 2);
    char expected[32];
    (void)snprintf(expected, sizeof expected, "%ld", strtol(counted, NULL, 10));
    assert_string_equal(database_ask(log.database,
                                     "SELECT max((s ->> 2)::int) - count(*) FROM (SELECT convert_from(leaf, 'UTF8')::json"
                                     " -> 'src' AS s FROM audit_entry) t"),
                        expected);
    assert_true(audit_log_check(&log) > 0);
    audit_log_close(&log);
}

static void without_signatures_serving_stops_and_comes_back(void **state)
{
    struct audit_log log;
    struct error err = {0};
    enum record_status status = RECORD_DONE;

    (void)state;
    audit_log_open(&log);
    wait_until_recorded(&log, 5000);
    keyd_process_kill(log.keyd);
    const int64_t killed_ms = clock_monotonic_ms();
    while (status == RECORD_DONE && clock_monotonic_ms() - killed_ms < 20000) {
        struct record record = test_record(VERDICT_ALLOW);
        sequencer_submit_and_wait(log.sequencer, &record);
        status = record.status;
        record_done(&record);
        (void)usleep(50000);
    }
    assert_int_equal(status, RECORD_UNAVAILABLE);
    assert_in_range(clock_monotonic_ms() - killed_ms, 4000, 15000);
    assert_false(sequencer_is_ready(log.sequencer, &err));
    while (clock_monotonic_ms() - killed_ms < 10000) (void)usleep(100000);
    keyd_process_restart(log.keyd);
    wait_until_recorded(&log, 10000);
    assert_true(sequencer_is_ready(log.sequencer, &err));
    sequencer_free(log.sequencer);
    log.sequencer = NULL;
    assert_string_equal(database_ask(log.database, "SELECT max(c.size) = (SELECT size FROM audit_log) FROM audit_checkpoint c"),
                        "t");
    assert_true(audit_log_check(&log) > 0);
    audit_log_close(&log);
}

static void a_log_that_keyd_does_not_know_is_refused(void **state)
{
    struct audit_log log;
    struct sequencer *sequencer = NULL;
    struct error err = {0};

    (void)state;
    audit_log_open(&log);
    for (unsigned i = 0; i < 3; i++) wait_until_recorded(&log, 5000);
    sequencer_free(log.sequencer);
    log.sequencer = NULL;

    /* An entry that was changed. */
    database_execute(log.database, "ALTER TABLE audit_entry DISABLE TRIGGER ALL; UPDATE audit_entry SET leaf_hash = sha256(leaf)"
                                   " WHERE seq = 1");
    assert_false(audit_log_try_start(&log, "gw1", &sequencer, &err).ok);
    assert_int_equal(err.kind, ERROR_FORKED);

    /* An older database, as after the restore of an older backup. */
    struct database *full = log.database;
    log.database = database_new();
    err = (struct error){0};
    assert_false(audit_log_try_start(&log, "gw1", &sequencer, &err).ok);
    assert_int_equal(err.kind, ERROR_FORKED);
    assert_non_null(strstr(err.message, "restored"));
    database_free(log.database);
    log.database = full;

    /* Another key directory. */
    database_execute(log.database, "UPDATE audit_entry SET leaf_hash = sha256('\\x00'::bytea || leaf) WHERE seq = 1");
    struct keyd_process *known = log.keyd;
    log.keyd = keyd_process_new(TEST_ORIGIN);
    err = (struct error){0};
    assert_false(audit_log_try_start(&log, "gw1", &sequencer, &err).ok);
    assert_int_equal(err.kind, ERROR_FORKED);
    keyd_process_free(log.keyd);
    log.keyd = known;

    log.sequencer = audit_log_start(&log, "gw1"); /* and the right one with the right one goes on */
    wait_until_recorded(&log, 5000);
    audit_log_close(&log);
}

static void wait_until_signed(struct audit_log *log, const char *size)
{
    const int64_t until_ms = clock_monotonic_ms() + 20000;

    while (strcmp(database_ask(log->database, "SELECT max(size) FROM audit_checkpoint"), size) != 0) {
        if (clock_monotonic_ms() > until_ms) fail_msg("%s entries are not signed", size);
        (void)usleep(20000);
    }
}

static const char save_backup[] = "CREATE TABLE old_log AS TABLE audit_log";
static const char restore_backup[] =
    "ALTER TABLE audit_entry DISABLE TRIGGER ALL; DELETE FROM audit_payload WHERE seq >= 1;"
    "DELETE FROM audit_entry WHERE seq >= 1; DELETE FROM audit_run WHERE last >= 1;"
    " DELETE FROM audit_checkpoint WHERE size > 1;"
    "UPDATE audit_log SET (size, last_ts, frontier) = (SELECT size, last_ts, frontier FROM old_log)";

/* The gateway that appended the missing entries notices at once; another one notices when it has the log signed. */
static void a_backup_restored_under_running_gateways_is_found(void **state)
{
    struct audit_log log;
    struct error err = {0};
    struct record lost = test_record(VERDICT_ALLOW);
    enum record_status status = RECORD_DONE;

    (void)state;
    audit_log_open(&log);
    wait_until_recorded(&log, 5000);
    wait_until_signed(&log, "1");
    database_execute(log.database, save_backup);
    struct sequencer *other = audit_log_start(&log, "gw2");
    for (unsigned i = 0; i < 4; i++) wait_until_recorded(&log, 5000);
    wait_until_signed(&log, "5");
    database_execute(log.database, restore_backup);

    sequencer_submit_and_wait(log.sequencer, &lost);
    assert_int_equal(lost.status, RECORD_UNAVAILABLE);
    assert_non_null(strstr(lost.error.message, "restored"));
    assert_false(sequencer_is_ready(log.sequencer, &err));
    record_done(&lost);
    const int64_t restored_ms = clock_monotonic_ms();
    for (unsigned i = 0; status == RECORD_DONE && clock_monotonic_ms() - restored_ms < 12000; i++) {
        struct record record = test_record(VERDICT_ALLOW);
        if (i < 3) sequencer_submit_and_wait(other, &record); /* fewer than keyd has signed */
        if (i >= 3) status = sequencer_is_ready(other, &err) ? RECORD_DONE : RECORD_UNAVAILABLE;
        record_done(&record);
        (void)usleep(100000);
    }
    assert_int_equal(status, RECORD_UNAVAILABLE);
    assert_non_null(strstr(err.message, "restored"));
    sequencer_free(other);
    audit_log_close(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_database_loses_nothing_acknowledged),
        cmocka_unit_test(a_database_that_stands_still_means_503_in_time),
        cmocka_unit_test(without_signatures_serving_stops_and_comes_back),
        cmocka_unit_test(a_log_that_keyd_does_not_know_is_refused),
        cmocka_unit_test(a_backup_restored_under_running_gateways_is_found),
    };

    (void)snprintf(server, sizeof server, "%s/sequencer_failures_postgres", TEST_FOLDER);
    (void)setenv("SIJIL_TEST_POSTGRES", server, 1);
    server_do("start");
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    server_do("stop");
    return failed;
}
