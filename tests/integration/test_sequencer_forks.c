/* Whoever may write to the database, and has no key, can't make the log lie unseen: rows put in, taken out, changed, swapped. */
#include "tests/integration/forks_fixture.h"

#include <pthread.h>

#include "audit/format/checkpoint.h"

/* ---- rows of checkpoints that nobody signed ---- */

#define STRANGE(size) "INSERT INTO audit_checkpoint (size, root, note) VALUES (" size ", decode(repeat('00', 32), 'hex'), 'x');"

static void check_served(const struct audit_log *log, uint64_t size)
{
    const struct keyd_identity identity = identify(log);
    struct signed_checkpoint served, again;
    struct note_key key;
    struct error err = {0};

    assert_true(note_key_read(bytes_of_text(identity.log_vkey), &key, &err).ok);
    assert_true(sequencer_checkpoint(log->sequencer, &served, &err).ok);
    assert_true(signed_checkpoint_read(&key, bytes_of_text(served.note), &again, &err).ok);
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

    /* What was acknowledged is cut off while nobody looks: as the attacker did it. */
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

/* ---- every row that can be changed ---- */

static const char save[] =
    "CREATE TABLE old_entry AS TABLE audit_entry; CREATE TABLE old_tile AS TABLE audit_tile; CREATE TABLE old_run AS TABLE audit_run";
static const char restore[] =
    "TRUNCATE audit_entry, audit_tile, audit_run; INSERT INTO audit_entry TABLE old_entry; INSERT INTO audit_tile TABLE old_tile;"
    " INSERT INTO audit_run TABLE old_run";

#define SWAP(column, a, b)                                                                                                \
    "UPDATE audit_entry e SET " column " = o." column " FROM old_entry o WHERE (e.seq, o.seq) IN ((" #a ", " #b "), (" #b \
    ", " #a "))"
#define CONSISTENT \
    "leaf_hash = sha256('\\x00'::bytea || convert_to(replace(convert_from(leaf, 'UTF8'), 'digits', 'digitz'), 'UTF8'))"

static const struct edit_row {
    const char *name, *sql, *says;
} edit_rows[] = {
    {"a leaf's bytes",
     "UPDATE audit_entry SET leaf = convert_to(replace(convert_from(leaf, 'UTF8'), 'digits', 'digitz'), 'UTF8')"
     " WHERE seq = 300",
     "entry 300"},
    {"a leaf with its hash",
     "UPDATE audit_entry SET leaf = convert_to(replace(convert_from(leaf, 'UTF8'), 'digits', 'digitz'), 'UTF8'), " CONSISTENT
     " WHERE seq = 300",
     "entries 256 to 511"},
    {"a leaf with its hash in the last tile",
     "UPDATE audit_entry SET leaf = convert_to(replace(convert_from(leaf, 'UTF8'), 'digits',"
     " 'digitz'), 'UTF8'), " CONSISTENT " WHERE seq = 590",
     "no proof leads from them to the root"},
    {"a leaf's hash", "UPDATE audit_entry SET leaf_hash = sha256(leaf) WHERE seq = 7", "entry 7"},
    {"two leaves swapped", SWAP("leaf", 20, 21), "entry 20"},
    {"two leaves swapped with their hashes",
     "UPDATE audit_entry e SET leaf = o.leaf, leaf_hash = o.leaf_hash FROM old_entry o"
     " WHERE (e.seq, o.seq) IN ((20, 21), (21, 20))",
     "entries 0 to 255"},
    {"an entry dropped", "DELETE FROM audit_entry WHERE seq = 400", "entry 400"},
    {"an entry's time", "UPDATE audit_entry SET ts = ts + 1 WHERE seq = 5", "time beside it"},
    {"an entry's action", "UPDATE audit_entry SET action = 'registry.ping' WHERE seq = 5", "action beside it"},
    {"an entry's outcome", "UPDATE audit_entry SET outcome = 'denied' WHERE seq = 5", "outcome beside it"},
    {"an entry behind the end",
     "INSERT INTO audit_entry SELECT seq + 100000, ts, leaf, leaf_hash, action, outcome FROM old_entry"
     " WHERE seq = 1",
     "behind the end"},
    {"a tile's hashes", "UPDATE audit_tile SET hashes = decode(repeat('00', 8192), 'hex') WHERE idx = 1", "tile 0/1"},
    {"a tile's root", "UPDATE audit_tile SET root = decode(repeat('00', 32), 'hex') WHERE idx = 1", "entries"},
    {"two tiles swapped",
     "UPDATE audit_tile t SET hashes = o.hashes FROM old_tile o WHERE t.level = 0 AND o.level = 0 AND"
     " (t.idx, o.idx) IN ((0, 1), (1, 0))",
     "tile 0/"},
    {"a tile dropped", "DELETE FROM audit_tile WHERE idx = 0", "the log"},
    {"a run dropped", "DELETE FROM audit_run WHERE last = (SELECT min(last) FROM audit_run WHERE last > 100)",
     "index of its keys"},
    {"a run's numbers", "UPDATE audit_run SET n = n + 1 WHERE last = (SELECT max(last) FROM audit_run)", "number"},
    {"a run's entries", "UPDATE audit_run SET seqs = ARRAY[3::bigint] || seqs WHERE last = (SELECT max(last) FROM audit_run)",
     "does not go on"},
    {"a run that nobody made", "INSERT INTO audit_run VALUES (decode(repeat('07', 16), 'hex'), 9, 1, '{9}')", "does not say"},
    {"a head that is too high",
     "INSERT INTO audit_run SELECT key, 598, max(n) + 1, '{598}' FROM audit_run GROUP BY key"
     " HAVING max(last) = 596",
     "does not say"},
};

static struct result check_all(struct pg *pg, const struct signed_checkpoint *checkpoint, struct error *err)
{
    OWNED(log_check) *check = NULL;
    struct run_cursor place = {.last = -1};
    size_t count = 1;

    TRY(log_check_new(pg, &check, err));
    log_check_against(check, checkpoint->size, &checkpoint->root);
    for (uint64_t i = 0; i * TILE_WIDTH < checkpoint->size; i++) TRY(log_check_tile(check, i, err));
    while (count > 0) TRY(log_check_runs(check, &place, &count, err));
    assert_int_equal(check->unreadable, 0);
    return log_check_end(pg, err);
}

static void check_edit(struct audit_log *log, struct pg *pg, const struct signed_checkpoint *checkpoint,
                       const struct edit_row *row)
{
    struct error err = {0};

    database_execute(log->database, row->sql);
    const bool is_sound = check_all(pg, checkpoint, &err).ok;
    if (is_sound) fail_msg("%s: nobody notices", row->name);
    if (err.kind != ERROR_FORKED || strstr(err.message, row->says) == NULL) fail_msg("%s: %s", row->name, err.message);
    database_execute(log->database, restore);
    if (!check_all(pg, checkpoint, &err).ok) fail_msg("after %s: %s", row->name, err.message);
}

static void every_edit_is_noticed(void **state)
{
    struct audit_log log;
    struct signed_checkpoint checkpoint;
    struct error err = {0};

    (void)state;
    audit_log_open(&log);
    record_some(&log, 596);
    /* So that a key ends before the last entries. */
    struct record stranger = test_record(VERDICT_CHALLENGE);
    sequencer_submit_and_wait(log.sequencer, &stranger);
    record_done(&stranger);
    record_some(&log, 3);
    wait_until_keyd_signed(&log, 600);
    do assert_true(sequencer_checkpoint(log.sequencer, &checkpoint, &err).ok);
    while (checkpoint.size < 600);
    stop(&log);
    database_execute(log.database, save);
    OWNED(pg) *pg = checker(&log);
    if (!check_all(pg, &checkpoint, &err).ok) fail_msg("%s", err.message);
    for (size_t i = 0; i < COUNT(edit_rows); i++) check_edit(&log, pg, &checkpoint, &edit_rows[i]);
    audit_log_close(&log);
}

static void nothing_is_recorded(const struct audit_log *log)
{
    const int64_t began_ms = clock_monotonic_ms();
    struct signed_checkpoint checkpoint;
    struct error err = {0};

    for (unsigned i = 0; i < 3; i++) {
        struct record record = test_record(VERDICT_ALLOW);
        sequencer_submit_and_wait(log->sequencer, &record);
        assert_int_equal(record.status, RECORD_UNAVAILABLE);
        assert_int_equal(record.error.kind, ERROR_FORKED);
        record_done(&record);
    }
    assert_true(clock_monotonic_ms() - began_ms < 5000); /* at once, not when the wait for the log is over */
    assert_false(sequencer_checkpoint(log->sequencer, &checkpoint, &err).ok);
    assert_int_equal(err.kind, ERROR_FORKED);
}

static void the_log_is_restored(const struct audit_log *log, int status, const char *says)
{
    static const char *const options[] = {"--log-restored", NULL};
    char said[2048];

    assert_int_equal(keyd_process_run(log->keyd, options, said, sizeof said), status);
    if (strstr(said, says) == NULL) fail_msg("\"%s\" does not say \"%s\"", said, says);
}

/* The gateway is killed, keyd does not answer meanwhile, and another gateway has nothing to do with it: the finding is there. */
static void a_finding_outlives_whoever_made_it(void **state)
{
    struct audit_log log;
    struct error err = {0};

    (void)state;
    audit_log_open(&log);
    struct sequencer *other = audit_log_start(&log, "gw2");
    record_some(&log, 300);
    wait_until_keyd_signed(&log, 300);
    keyd_process_pause(log.keyd, true);
    sequencer_set_forked(log.sequencer,
                         &(struct error){.kind = ERROR_FORKED, .message = "entry 5 of the log is not as it was signed"});
    (void)usleep(300000);
    keyd_process_pause(log.keyd, false);
    stop(&log); /* which waits until it is told */
    log.sequencer = other;
    struct record record = test_record(VERDICT_ALLOW);
    sequencer_submit_and_wait(log.sequencer, &record);
    record_done(&record);
    wait_until_forked(&log, "entry 5");
    assert_false(sequencer_is_ready(log.sequencer, &err));
    stop(&log);
    start_is_refused(&log, "entry 5");
    the_log_is_restored(&log, 0, "entry 5");
    log.sequencer = audit_log_start(&log, "gw1");
    record_some(&log, 1);
    audit_log_close(&log);
}

static void an_edit_while_it_runs_stops_it_for_good(void **state)
{
    struct audit_log log;

    (void)state;
    atomic_store(&notices, 0);
    audit_log_init(&log);
    log.sequencer = start_with_notice(&log);
    record_some(&log, 300);
    wait_until_keyd_signed(&log, 300);
    struct log_verifier *walking = start_verifier(&log, 600);
    (void)sleep(1); /* some rounds find nothing */
    record_some(&log, 3);
    database_execute(log.database, "CREATE TABLE old_entry AS TABLE audit_entry; UPDATE audit_entry SET leaf ="
                                   " convert_to(replace(convert_from(leaf, 'UTF8'), 'digits', 'digitz'), 'UTF8') WHERE seq = 17");
    wait_until_forked(&log, "entry 17");
    nothing_is_recorded(&log);
    assert_int_equal(atomic_load(&notices), 1);
    database_execute(log.database, "UPDATE audit_entry e SET leaf = o.leaf FROM old_entry o WHERE e.seq = o.seq");
    nothing_is_recorded(&log); /* until somebody starts it again */
    log_verifier_free(walking);
    stop(&log);
    start_is_refused(&log, "entry 17"); /* although the row is as it was: nobody has said so */
    keyd_process_kill(log.keyd);
    keyd_process_restart(log.keyd);
    start_is_refused(&log, "entry 17");
    the_log_is_restored(&log, 0, "entry 17");
    the_log_is_restored(&log, 1, "no gateway has reported");
    log.sequencer = audit_log_start(&log, "gw1");
    record_some(&log, 1);
    audit_log_close(&log);
}

static const struct state_row {
    const char *name, *sql;
} state_rows[] = {
    {"the state's frontier", "UPDATE audit_log SET frontier = decode(repeat('00', length(frontier)), 'hex')"},
    {"the state's time", "UPDATE audit_log SET last_ts = last_ts + 100000000000"},
    {"the state's size and frontier", "UPDATE audit_log SET size = 8, frontier = decode(repeat('00', 32), 'hex')"},
    {"a frontier that is too short", "UPDATE audit_log SET frontier = ''"},
};

static void the_state_is_not_believed(void **state)
{
    const struct state_row *row = *state;
    struct audit_log log;
    enum record_status status = RECORD_DONE;
    struct error why = {0};
    const int64_t until_ms = clock_monotonic_ms() + 20000;

    audit_log_open(&log);
    record_some(&log, 3);
    wait_until_keyd_signed(&log, 3);
    (void)usleep(1200000); /* an append from memory would put it right again */
    database_execute(log.database, row->sql);
    while (status == RECORD_DONE && clock_monotonic_ms() < until_ms) {
        struct record record = test_record(VERDICT_ALLOW);
        sequencer_submit_and_wait(log.sequencer, &record);
        status = record.status;
        why = record.error;
        record_done(&record);
        (void)usleep(50000);
    }
    if (status != RECORD_UNAVAILABLE || why.kind != ERROR_FORKED) fail_msg("%s: %s", row->name, why.message);
    wait_until_forked(&log, "");
    stop(&log);
    struct sequencer *sequencer = NULL;
    assert_false(audit_log_try_start(&log, "gw1", &sequencer, &why).ok);
    assert_int_equal(why.kind, ERROR_FORKED);
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

/* What a thread beside the test records; the test itself judges it, because cmocka knows no other thread. */
struct recorder {
    const struct audit_log *log;
    atomic_bool is_over;
    unsigned recorded;
    struct error found; /* ERROR_NONE, or that the log is not as it was signed */
};

/* A machine that is slow for a moment answers that it has no time, and is asked again. */
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

/* keyd tells the slower of two that it has to ask again: that is no fork, and no reason not to start. */
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

/* As the attacker did it: the row would decide the next number, which keyd would sign. */
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
    assert_true(audit_prove(pg, permit, 5, &checkpoint, &proof, &err).ok);
    buffer_clear(&proof);
    database_execute(log.database,
                     "CREATE TABLE old_tile AS TABLE audit_tile; UPDATE audit_tile SET hashes = set_byte(hashes, 8000, 1)");
    assert_false(audit_prove(pg, permit, 5, &checkpoint, &proof, &err).ok);
    assert_int_equal(err.kind, ERROR_FORKED);
    assert_int_equal(proof.length, 0);
    database_execute(log.database, "UPDATE audit_tile SET hashes = o.hashes FROM old_tile o; UPDATE audit_entry SET leaf ="
                                   " convert_to(replace(convert_from(leaf, 'UTF8'), 'digits', 'digitz'), 'UTF8') WHERE seq = 5");
    assert_false(audit_prove(pg, permit, 5, &checkpoint, &proof, &err).ok);
    assert_int_equal(err.kind, ERROR_FORKED);
    /* An index that puts an event under a key that is not its own shows nobody what is not his. */
    database_execute(log.database, "INSERT INTO audit_run SELECT key, 10, 1000, '{7}' FROM audit_run WHERE key ="
                                   " substr(sha256('out:denied'), 1, 16) ORDER BY last LIMIT 1");
    err = (struct error){0};
    assert_false(audit_list(pg, permit, &filter, &page, &err).ok);
    assert_int_equal(err.kind, ERROR_FORKED);
    audit_log_close(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_that_nobody_signed_turns_signing_off_for_nobody),
        cmocka_unit_test(a_true_note_in_another_row_means_nothing),
        cmocka_unit_test(every_edit_is_noticed),
        cmocka_unit_test(an_edit_while_it_runs_stops_it_for_good),
        cmocka_unit_test(a_finding_outlives_whoever_made_it),
        cmocka_unit_test(the_unsigned_tail_is_read_leaf_by_leaf),
        cmocka_unit_test(what_does_not_verify_is_not_served),
        cmocka_unit_test(no_row_decides_the_next_number),
        cmocka_unit_test(gateways_start_while_others_have_the_log_signed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) + RUN_TABLE(state_rows, the_state_is_not_believed);
}
