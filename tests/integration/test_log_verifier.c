/* The verifier finishes its rounds with any content of the tables, and reports what delays it. */
#include "tests/integration/forks_fixture.h"

#include "audit/metrics.h"

static void wait_for_rounds(int64_t more)
{
    const int64_t wanted = metric_value(AUDIT_METRIC(audit_verify_rounds)) + more, until_ms = clock_monotonic_ms() + 180000;

    while (metric_value(AUDIT_METRIC(audit_verify_rounds)) < wanted) {
        if (clock_monotonic_ms() > until_ms) fail_msg("the verifier's round does not end");
        (void)usleep(20000);
    }
}

static void wait_for_late(int64_t value)
{
    const int64_t until_ms = clock_monotonic_ms() + 180000;

    while (metric_value(AUDIT_METRIC(audit_verify_late)) != value) {
        if (clock_monotonic_ms() > until_ms) fail_msg("late is not %lld", (long long)value);
        (void)usleep(20000);
    }
}

#define FORGE \
    "UPDATE audit_entry SET leaf = convert_to(replace(convert_from(leaf, 'UTF8'), 'digits', 'digitz'), 'UTF8') WHERE seq = 1"

static const struct junk_row {
    const char *name, *sql;
    int64_t strange; /* the number of rows that the report must have at least */
} junk_rows[] = {
    {"notes that are longer than those of sijil-keyd",
     "ALTER TABLE audit_checkpoint DROP CONSTRAINT audit_checkpoint_note_size; SET ROLE sijil_app;"
     " INSERT INTO audit_checkpoint (size, root, note) SELECT 2, decode(repeat('00', 32), 'hex'), repeat('\u00e9', 2040) || i"
     " FROM generate_series(1, 100) AS i; RESET ROLE",
     100},
    {"more rows than a round looks at",
     "SET ROLE sijil_app; INSERT INTO audit_checkpoint (size, root, note) SELECT i % 3, decode(repeat('00', 32), 'hex'), i"
     " FROM generate_series(1, 5000) AS i; RESET ROLE",
     5000},
    {"rows of every size",
     "SET ROLE sijil_app; INSERT INTO audit_checkpoint (size, root, note) VALUES (9223372036854775807, decode(repeat('00', 32), 'hex'), ''),"
     " (-5, decode(repeat('00', 32), 'hex'), ''), (0, decode(repeat('00', 32), 'hex'), '\u00e9'); RESET ROLE",
     3},
    {"the root beside a note that is signed", "UPDATE audit_checkpoint SET root = decode(repeat('00', 32), 'hex')", 1},
};

/* Opens a log with ten signed entries, without a notice yet. */
static void open_signed(struct audit_log *log)
{
    atomic_store(&notices, 0);
    audit_log_init(log);
    log->sequencer = start_with_notice(log);
    record_some(log, 10);
    wait_until_keyd_signed(log, 10);
}

static void rows_of_checkpoints_keep_no_round_from_its_end(void **state)
{
    const struct junk_row *row = *state;
    const int64_t before = metric_value(AUDIT_METRIC(audit_foreign_checkpoints)), until_ms = clock_monotonic_ms() + 60000;
    struct audit_log log;

    open_signed(&log);
    database_execute(log.database, row->sql);
    OWNED(log_verifier) *walking = start_verifier(&log, 600);
    wait_for_rounds(3);
    while (metric_value(AUDIT_METRIC(audit_foreign_checkpoints)) - before < row->strange)
        if (clock_monotonic_ms() > until_ms)
            fail_msg("%s: reported are %lld", row->name, (long long)metric_value(AUDIT_METRIC(audit_foreign_checkpoints)));
    assert_in_range(atomic_load(&notices), 1, 10); /* not one for each row */
    database_execute(log.database, FORGE);
    wait_until_forked(&log, "entry 1");
    log_verifier_free(GIVE(walking));
    audit_log_close(&log);
}

static void a_round_that_does_not_end_is_told(void **state)
{
    struct audit_log log;

    (void)state;
    open_signed(&log);
    OWNED(log_verifier) *walking = start_verifier(&log, 1);
    wait_for_rounds(1);
    database_execute(log.database, "REVOKE SELECT ON audit_tile FROM sijil_app; REVOKE SELECT ON audit_run FROM sijil_app");
    wait_for_late(1);
    assert_true(atomic_load(&notices) >= 2); /* that it failed, and that it is late */
    database_execute(log.database, "GRANT SELECT ON audit_tile TO sijil_app; GRANT SELECT ON audit_run TO sijil_app");
    wait_for_late(0);
    log_verifier_free(GIVE(walking));
    audit_log_close(&log);
}

static void wait_for_payloads(int64_t missing, int64_t damaged)
{
    const int64_t until_ms = clock_monotonic_ms() + 60000;

    while (metric_value(AUDIT_METRIC(audit_payloads_missing)) != missing ||
           metric_value(AUDIT_METRIC(audit_payloads_damaged)) != damaged) {
        if (clock_monotonic_ms() > until_ms)
            fail_msg("missing %lld, damaged %lld", (long long)metric_value(AUDIT_METRIC(audit_payloads_missing)),
                     (long long)metric_value(AUDIT_METRIC(audit_payloads_damaged)));
        (void)usleep(20000);
    }
}

/* The actor's name is not in the leaf, but the verifier looks for the payload. A missing one does not stop the service. */
static void payloads_are_looked_at(void **state)
{
    struct audit_log log;
    struct error err = {0};

    (void)state;
    open_signed(&log);
    OWNED(log_verifier) *walking = start_verifier(&log, 600);
    wait_for_rounds(1);
    wait_for_payloads(0, 0);
    assert_int_equal(atomic_load(&notices), 0);
    database_execute(log.database, "DELETE FROM audit_payload WHERE seq = 4");
    wait_for_payloads(1, 0);
    database_execute(log.database,
                     "UPDATE audit_payload SET salt = sha256('') WHERE seq = 5; UPDATE audit_payload SET box ="
                     " decode(repeat('00', 100000), 'hex') WHERE seq = 6; INSERT INTO audit_payload (seq, subject, salt, box)"
                     " SELECT 4, subject, salt, box FROM audit_payload WHERE seq = 3");
    wait_for_payloads(0, 3);
    assert_true(atomic_load(&notices) >= 2);
    assert_true(sequencer_is_ready(log.sequencer, &err));
    log_verifier_free(GIVE(walking));
    audit_log_close(&log);
}

static void wait_for_searches(int64_t missing)
{
    const int64_t until_ms = clock_monotonic_ms() + 60000;

    while (metric_value(AUDIT_METRIC(audit_search_missing)) != missing) {
        if (clock_monotonic_ms() > until_ms)
            fail_msg("missing %lld", (long long)metric_value(AUDIT_METRIC(audit_search_missing)));
        (void)usleep(20000);
    }
}

/* An event that a search does not find is reported, and stops nothing; an index that is not made yet lacks nothing. */
static void the_index_of_searches_is_looked_at(void **state)
{
    struct audit_log log;
    struct error err = {0};

    (void)state;
    open_signed(&log);
    OWNED(log_verifier) *walking = start_verifier(&log, 600);
    wait_for_rounds(1);
    wait_for_searches(0);
    index_all(&log);
    wait_for_rounds(2);
    wait_for_searches(0);
    assert_int_equal(atomic_load(&notices), 0);
    database_execute(log.database,
                     "CREATE TABLE old_post AS TABLE audit_post;"
                     " UPDATE audit_post SET list = '\\x0009' WHERE length(list) = 20"); /* the words that all ten have */
    wait_for_searches(9);
    assert_true(atomic_load(&notices) >= 1);
    database_execute(log.database,
                     "UPDATE audit_post p SET list = o.list FROM old_post o WHERE (o.key, o.block) = (p.key, p.block);"
                     " UPDATE audit_post SET list = '\\x00' || list"); /* none is a list any more */
    wait_for_searches(10);
    database_execute(log.database, "TRUNCATE audit_post, audit_blind; UPDATE audit_search SET indexed = 0");
    wait_for_searches(0);
    assert_true(sequencer_is_ready(log.sequencer, &err));
    log_verifier_free(GIVE(walking));
    audit_log_close(&log);
}

static void wait_for_facts(int64_t missing, int64_t damaged)
{
    const int64_t until_ms = clock_monotonic_ms() + 60000;

    while (metric_value(AUDIT_METRIC(audit_facts_missing)) != missing ||
           metric_value(AUDIT_METRIC(audit_facts_damaged)) != damaged) {
        if (clock_monotonic_ms() > until_ms)
            fail_msg("facts missing %lld, damaged %lld", (long long)metric_value(AUDIT_METRIC(audit_facts_missing)),
                     (long long)metric_value(AUDIT_METRIC(audit_facts_damaged)));
        (void)usleep(20000);
    }
}

/*
 * The facts of decisions are stored beside the log, once for many events. The verifier reports a row that is missing or was
 * edited by the database's owner.
 */
static void facts_are_looked_at(void **state)
{
    struct audit_log log;
    struct error err = {0};

    (void)state;
    open_signed(&log); /* ten events, of which four are denied */
    OWNED(log_verifier) *walking = start_verifier(&log, 600);
    wait_for_rounds(1);
    wait_for_facts(0, 0);
    assert_int_equal(atomic_load(&notices), 0);
    database_execute(log.database,
                     "CREATE TABLE kept AS SELECT *, position(convert_to('SYS-NO-BINDING', 'UTF8') IN facts) > 0 AS denies"
                     " FROM audit_facts; DELETE FROM audit_facts WHERE digest IN (SELECT digest FROM kept WHERE denies)");
    wait_for_facts(4, 0);
    database_execute(log.database, "ALTER TABLE audit_facts DROP CONSTRAINT audit_facts_digest; INSERT INTO audit_facts"
                                   " SELECT digest, set_byte(facts, 3, get_byte(facts, 3) # 1) FROM kept WHERE denies");
    wait_for_facts(0, 4);
    assert_true(atomic_load(&notices) >= 2);
    assert_true(sequencer_is_ready(log.sequencer, &err));
    database_execute(log.database, "DELETE FROM audit_facts; INSERT INTO audit_facts SELECT digest, facts FROM kept");
    wait_for_facts(0, 0);
    log_verifier_free(GIVE(walking));
    audit_log_close(&log);
}

/* The round has ended and the next one begins in an hour: a payload that was never stored is still reported. */
static void new_payloads_are_looked_at_at_once(void **state)
{
    struct audit_log log;
    struct error err = {0};

    (void)state;
    open_signed(&log);
    const struct log_verifier_options options = {
        .conninfo = database_app(log.database), .sequencer = log.sequencer, .rate = 1000000, .rest_s = 3600, .patience_s = 600};
    struct log_verifier *walking = NULL;
    if (!log_verifier_start(&options, &walking, &err).ok) fail_msg("%s", err.message);
    wait_for_rounds(1);
    wait_for_payloads(0, 0);
    database_execute(
        log.database,
        "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;"
        " CREATE TRIGGER swallow BEFORE INSERT ON audit_payload FOR EACH ROW WHEN (NEW.seq = 12) EXECUTE FUNCTION swallow()");
    record_some(&log, 5);
    wait_for_payloads(1, 0);
    assert_int_equal(atomic_load(&notices), 1);
    assert_true(sequencer_is_ready(log.sequencer, &err));
    log_verifier_free(walking);
    audit_log_close(&log);
}

/* After a start the check of new entries also reads old ones, beside the round: a missing payload was counted twice. */
static void a_payload_is_missed_once(void **state)
{
    struct audit_log log;
    struct error err = {0};

    (void)state;
    open_signed(&log);
    record_some(&log, 600);
    assert_true(sequencer_await_signed(log.sequencer, 600, &err).ok);
    database_execute(log.database, "DELETE FROM audit_payload WHERE seq IN (300, 500)");
    const struct log_verifier_options options = {
        .conninfo = database_app(log.database), .sequencer = log.sequencer, .rate = 1000000, .rest_s = 3600, .patience_s = 600};
    struct log_verifier *walking = NULL;
    if (!log_verifier_start(&options, &walking, &err).ok) fail_msg("%s", err.message);
    wait_for_rounds(1);
    wait_for_payloads(2, 0);
    (void)usleep(5000000);
    assert_int_equal(metric_value(AUDIT_METRIC(audit_payloads_missing)), 2);
    log_verifier_free(walking);
    audit_log_close(&log);
}

/* The rows are copies for backups: nobody noticed that the table was empty. */
static void a_deleted_checkpoint_is_told_and_written_again(void **state)
{
    struct audit_log log;

    (void)state;
    open_signed(&log);
    /* The row comes after the signature: if it were not there yet, nothing would be deleted. */
    wait_for_answer(&log, "SELECT count(*) FROM audit_checkpoint c JOIN audit_log l USING (size)", "1");
    database_execute(log.database, "DELETE FROM audit_checkpoint");
    const int64_t until_ms = clock_monotonic_ms() + 180000;
    while (strcmp(database_ask(log.database, "SELECT count(*) FROM audit_checkpoint c JOIN audit_log l USING (size)"), "1") !=
           0) {
        assert_true(clock_monotonic_ms() < until_ms);
        (void)usleep(50000);
    }
    assert_int_equal(atomic_load(&notices), 1);
    audit_log_close(&log);
}

#define REHASH ", leaf_hash = sha256('\\x00'::bytea || "

static const struct odd_row {
    const char *name, *sql;
    uint64_t damaged;
} odd_rows[] = {
    {"an entry that can't be read, with a payload", "UPDATE audit_entry SET leaf = '{}'" REHASH "'{}'::bytea) WHERE seq = 4", 0},
    {"a payload of an entry that committed to none",
     "UPDATE audit_entry SET leaf = convert_to(regexp_replace(convert_from(leaf, 'UTF8'), '\"pay\":\"[0-9a-f]*\",', ''), 'UTF8') WHERE seq = 4;"
     " UPDATE audit_entry SET leaf_hash = sha256('\\x00'::bytea || leaf) WHERE seq = 4",
     1},
    {"the same, under a subject that there is not",
     "UPDATE audit_entry SET leaf = convert_to(regexp_replace(convert_from(leaf, 'UTF8'), '\"pay\":\"[0-9a-f]*\",', ''), 'UTF8') WHERE seq = 4;"
     " UPDATE audit_entry SET leaf_hash = sha256('\\x00'::bytea || leaf) WHERE seq = 4;"
     " UPDATE audit_payload SET subject = sha256('nobody') WHERE seq = 4",
     1},
};

/* An odd entry is accepted, because it matches its hash; the rest of the tile is checked as usual. */
static void odd_entries_are_passed(void **state)
{
    const struct odd_row *row = *state;
    struct audit_log log;
    struct payload_findings found = {0};
    struct error err = {0};

    open_signed(&log);
    database_execute(log.database, row->sql);
    OWNED(pg) *pg = checker(&log);
    OWNED(log_check) *check = NULL;
    const struct payload_keys keys = {keyd_process_client(log.keyd), TEST_ORIGIN, false};
    assert_true(log_check_new(pg, &check, &err).ok);
    if (!log_check_payloads(check, 0, 10, &keys, &found, &err).ok) fail_msg("%s", err.message);
    assert_int_equal(found.damaged, row->damaged);
    assert_int_equal(found.missing, 0);
    database_execute(log.database, "DELETE FROM audit_payload WHERE seq = 7");
    assert_true(log_check_payloads(check, 0, 10, &keys, &found, &err).ok);
    assert_int_equal(found.missing, 1);
    audit_log_close(&log);
}

#define ZEROS(bytes) "decode(repeat('00', " #bytes "), 'hex')"

static const struct planted_row {
    const char *name, *sql, *says;
} planted_rows[] = {
    {"an entry", "INSERT INTO audit_entry VALUES (500, 0, '{}', " ZEROS(32) ", 'blob.read', 'allowed')", "after the end"},
    {"a payload", "INSERT INTO audit_payload VALUES (500, " ZEROS(32) ", " ZEROS(32) ", '')", "after the end"},
    {"a payload before the first entry", "INSERT INTO audit_payload VALUES (-1, " ZEROS(32) ", " ZEROS(32) ", '')",
     "after the end"},
    {"a tile", "INSERT INTO audit_tile VALUES (0, 0, " ZEROS(8192) ", " ZEROS(32) ")", "after the end"},
    {"a tile above", "INSERT INTO audit_tile VALUES (1, 0, " ZEROS(8192) ", " ZEROS(32) ")", "after the end"},
    {"a tile of no level", "INSERT INTO audit_tile VALUES (9, 0, " ZEROS(8192) ", " ZEROS(32) ")", "after the end"},
    {"a run of a key", "INSERT INTO audit_run VALUES (" ZEROS(16) ", 500, 1, '{500}')", "after the end"},
};

/* By the gateways' own role. */
static void rows_behind_the_end_are_noticed(void **state)
{
    const struct planted_row *row = *state;
    struct audit_log log;

    open_signed(&log);
    OWNED(log_verifier) *walking = start_verifier(&log, 600);
    wait_for_rounds(1);
    database_execute(log.database, "SET ROLE sijil_app");
    database_execute(log.database, row->sql);
    database_execute(log.database, "RESET ROLE");
    wait_until_forked(&log, row->says);
    log_verifier_free(GIVE(walking));
    audit_log_close(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_round_that_does_not_end_is_told),
                                       cmocka_unit_test(the_index_of_searches_is_looked_at),
                                       cmocka_unit_test(payloads_are_looked_at),
                                       cmocka_unit_test(facts_are_looked_at),
                                       cmocka_unit_test(new_payloads_are_looked_at_at_once),
                                       cmocka_unit_test(a_payload_is_missed_once),
                                       cmocka_unit_test(a_deleted_checkpoint_is_told_and_written_again)};

    return cmocka_run_group_tests(tests, NULL, NULL) + RUN_TABLE(odd_rows, odd_entries_are_passed) +
           RUN_TABLE(planted_rows, rows_behind_the_end_are_noticed) +
           RUN_TABLE(junk_rows, rows_of_checkpoints_keep_no_round_from_its_end);
}
