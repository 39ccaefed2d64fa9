/* Edited rows of the log: each edit is noticed, at the start and while it runs, and the finding stays. */
#include "tests/integration/forks_fixture.h"

#include "audit/format/checkpoint.h"

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
     "no inclusion proof leads from them to the root"},
    {"a leaf's hash", "UPDATE audit_entry SET leaf_hash = sha256(leaf) WHERE seq = 7", "entry 7"},
    {"two leaves swapped", SWAP("leaf", 20, 21), "entry 20"},
    {"two leaves swapped with their hashes",
     "UPDATE audit_entry e SET leaf = o.leaf, leaf_hash = o.leaf_hash FROM old_entry o"
     " WHERE (e.seq, o.seq) IN ((20, 21), (21, 20))",
     "entries 0 to 255"},
    {"an entry dropped", "DELETE FROM audit_entry WHERE seq = 400", "entry 400"},
    {"an entry's time", "UPDATE audit_entry SET ts = ts + 1 WHERE seq = 5", "stored time"},
    {"an entry's action", "UPDATE audit_entry SET action = 'registry.ping' WHERE seq = 5", "stored action"},
    {"an entry's outcome", "UPDATE audit_entry SET outcome = 'denied' WHERE seq = 5", "stored outcome"},
    {"an entry after the end",
     "INSERT INTO audit_entry SELECT seq + 100000, ts, leaf, leaf_hash, action, outcome FROM old_entry"
     " WHERE seq = 1",
     "after the end"},
    {"a tile's hashes", "UPDATE audit_tile SET hashes = decode(repeat('00', 8192), 'hex') WHERE idx = 1", "tile 0/1"},
    {"a tile's root", "UPDATE audit_tile SET root = decode(repeat('00', 32), 'hex') WHERE idx = 1", "entries"},
    {"two tiles swapped",
     "UPDATE audit_tile t SET hashes = o.hashes FROM old_tile o WHERE t.level = 0 AND o.level = 0 AND"
     " (t.idx, o.idx) IN ((0, 1), (1, 0))",
     "tile 0/"},
    {"a tile dropped", "DELETE FROM audit_tile WHERE idx = 0", "the log"},
    {"a run dropped", "DELETE FROM audit_run WHERE last = (SELECT min(last) FROM audit_run WHERE last > 100)", "or not at all"},
    {"a run's numbers", "UPDATE audit_run SET n = n + 1 WHERE last = (SELECT max(last) FROM audit_run)", "number"},
    {"a run's entries", "UPDATE audit_run SET seqs = ARRAY[3::bigint] || seqs WHERE last = (SELECT max(last) FROM audit_run)",
     "does not continue"},
    {"a run that nobody made", "INSERT INTO audit_run VALUES (decode(repeat('07', 16), 'hex'), 9, 1, '{9}')", "does not have"},
    {"a head that is too high",
     "INSERT INTO audit_run SELECT key, 598, max(n) + 1, '{598}' FROM audit_run GROUP BY key"
     " HAVING max(last) = 596",
     "does not have"},
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
    if (!check_all(pg, &checkpoint, &err).ok)
        fail_msg("after all: %s", err.message); /* or a later row would say what an earlier one left */
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
    assert_true(clock_monotonic_ms() - began_ms < 5000); /* at once, and not after the wait for the log */
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

/* The gateway is killed while keyd does not answer. The finding still reaches another gateway. */
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
    for (unsigned i = 0; i < 1000 && atomic_load(&notices) == 0; i++) (void)usleep(10000); /* it is told a moment later */
    assert_int_equal(atomic_load(&notices), 1);
    database_execute(log.database, "UPDATE audit_entry e SET leaf = o.leaf FROM old_entry o WHERE e.seq = o.seq");
    nothing_is_recorded(&log); /* until somebody starts it again */
    log_verifier_free(walking);
    stop(&log);
    start_is_refused(&log, "entry 17"); /* although the row is restored: no operator has declared the log restored */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_edit_is_noticed),
        cmocka_unit_test(an_edit_while_it_runs_stops_it_for_good),
        cmocka_unit_test(a_finding_outlives_whoever_made_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) + RUN_TABLE(state_rows, the_state_is_not_believed);
}
