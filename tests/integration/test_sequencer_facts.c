/* The facts of decisions are stored once, with the event that commits to them; and a log of the previous version continues. */
#include "audit/own_reads.h"
#include "tests/integration/sequencer_fixture.h"

#include "audit/audit_store.h"
#include "audit/erasure.h"
#include "audit/format/leaf.h"
#include "audit/format/tile.h"
#include "audit/log_check_priv.h"
#include "audit/metrics.h"
#include "audit/query.h"
#include "audit/query_priv.h"
#include "base/text.h"

#define PULLS     10000
#define AT_ONCE   500
#define OLD_COUNT 300 /* more than a tile */

/* One decision with two targets. Another `number` gives other facts. */
static struct record record_on(const char *first, const char *second)
{
    struct record record = test_record(VERDICT_ALLOW);
    struct decision_parts parts = {.verdict = VERDICT_ALLOW,
                                   .epoch = TEST_EPOCH,
                                   .id = "sha256:01",
                                   .pair_count = 2,
                                   .pairs = {*decision_pair(record.decision, 0), *decision_pair(record.decision, 0)},
                                   .facts = {bytes_of_text(first), bytes_of_text(second)},
                                   .decided_ms = 1795171186000};
    struct error err = {0};

    decision_free(record.decision);
    if (!decision_make(&parts, &record.decision, &err).ok) fail_msg("%s", err.message);
    return record;
}

static void expect(struct audit_log *log, const char *sql, const char *answer)
{
    const char *got = database_ask(log->database, sql);

    if (strcmp(got, answer) != 0) fail_msg("%s: \"%s\", not \"%s\"", sql, got, answer);
}

static void pulls_make_one_row(void **state)
{
    static struct batched records[AT_ONCE];
    struct audit_log log;

    (void)state;
    open_log(&log);
    for (size_t done = 0; done < PULLS; done += AT_ONCE) {
        for (size_t i = 0; i < AT_ONCE; i++) records[i] = (struct batched){.record = test_record(VERDICT_ALLOW)};
        submit_batch(log.sequencer, records, AT_ONCE);
        for (size_t i = 0; i < AT_ONCE; i++) {
            assert_int_equal(records[i].record.status, RECORD_DONE);
            record_done(&records[i].record);
        }
    }
    expect(&log, "SELECT count(*) > 10000 FROM audit_entry", "t");
    expect(&log, "SELECT count(*) || ' ' || min(convert_from(facts, 'UTF8')) FROM audit_facts", "1 " TEST_FACTS(""));
    assert_true(audit_log_check(&log) > PULLS);
    audit_log_close(&log);
}

/* The same twice in one event, in one group, by another gateway and after a restart. */
static void the_same_facts_are_stored_once(void **state)
{
    struct audit_log log;
    struct batched records[3];
    struct sequencer *other = NULL;

    (void)state;
    open_log(&log);
    other = audit_log_start(&log, "gw2");
    records[0] = (struct batched){.record = record_on("{\"a\":1}", "{\"a\":1}")};
    records[1] = (struct batched){.record = record_on("{\"a\":1}", "{\"b\":2}")};
    records[2] = (struct batched){.record = record_on("{\"b\":2}", "{\"c\":3}")};
    submit_as_one_group(&log, records, COUNT(records));
    for (size_t i = 0; i < COUNT(records); i++) record_done(&records[i].record);
    struct record elsewhere = record_on("{\"b\":2}", "{\"d\":4}");
    sequencer_submit_and_wait(other, &elsewhere);
    assert_int_equal(elsewhere.status, RECORD_DONE);
    record_done(&elsewhere);
    sequencer_free(other);
    sequencer_free(log.sequencer);
    log.sequencer = audit_log_start(&log, "gw1");
    struct record again = record_on("{\"a\":1}", "{\"c\":3}");
    sequencer_submit_and_wait(log.sequencer, &again);
    assert_int_equal(again.status, RECORD_DONE);
    record_done(&again);
    expect(&log, "SELECT string_agg(convert_from(facts, 'UTF8'), ' ' ORDER BY facts) FROM audit_facts WHERE length(facts) < 9",
           "{\"a\":1} {\"b\":2} {\"c\":3} {\"d\":4}");
    (void)audit_log_check(&log);
    audit_log_close(&log);
}

/* A group that is refused at once, for a change that conflicts, is run again, and so are its facts. */
static void facts_of_a_group_that_ran_twice_are_there(void **state)
{
    struct audit_log log;
    struct batched records[] = {with_change(INSERTS, "one"), with_change(CONFLICTS, "two")};
    const int64_t beaten = metric_value(AUDIT_METRIC(audit_beaten));

    (void)state;
    open_log(&log);
    for (size_t i = 0; i < COUNT(records); i++) {
        struct record made = record_on(i == 0 ? "{\"e\":1}" : "{\"f\":1}", "{\"g\":1}");
        decision_free(records[i].record.decision);
        records[i].record.decision = made.decision;
        records[i].change.change.add = add;
        records[i].change.change.take = take;
    }
    attach_changes(records, COUNT(records));
    submit_as_one_group(&log, records, COUNT(records));
    assert_int_equal(records[0].record.status, RECORD_DONE);
    assert_int_equal(records[1].record.status, RECORD_REFUSED);
    assert_int_equal(metric_value(AUDIT_METRIC(audit_beaten)), beaten + 1);
    for (size_t i = 0; i < COUNT(records); i++) record_done(&records[i].record);
    expect(&log, "SELECT count(*) FROM audit_facts WHERE length(facts) < 9", "3");
    (void)audit_log_check(&log);
    audit_log_close(&log);
}

/* As the application's role: existing rows can't be changed, and false rows can't be added. */
static void the_application_adds_true_rows_alone(void **state)
{
    struct audit_log log;

    (void)state;
    open_log(&log);
    static const char *const refused[] = {"UPDATE audit_facts SET facts = 'x'", "DELETE FROM audit_facts", "TRUNCATE audit_facts",
                                          "INSERT INTO audit_facts VALUES (sha256('x'), 'y')"};
    char sql[512];
    for (size_t i = 0; i < COUNT(refused); i++) {
        (void)snprintf(sql, sizeof sql,
                       "DO $$ BEGIN BEGIN SET LOCAL ROLE sijil_app; %s; EXCEPTION WHEN insufficient_privilege OR check_violation"
                       " THEN RETURN; END; RAISE EXCEPTION 'it may'; END $$",
                       refused[i]);
        database_execute(log.database, sql);
    }
    database_execute(log.database, "SET ROLE sijil_app; INSERT INTO audit_facts VALUES (sha256('y'), 'y'); RESET ROLE");
    audit_log_close(&log);
}

/* --- reading --- */

/* Checks the state of the facts for both targets of the page's first event. */
static void expect_facts(struct audit_log *log, enum facts_state first, enum facts_state second)
{
    static const struct pg_table *const tables[] = {&audit_query_table, NULL};
    OWNED(pg) *pg = NULL;
    OWNED(audit_page) *page = NULL;
    struct bytes text;
    struct error err = {0};

    assert_true(pg_open(database_app(log->database), tables, &pg, &err).ok);
    if (!audit_page_between(pg, 0, 1, &page, &err).ok) fail_msg("%s", err.message);
    assert_int_equal(audit_page_facts_count(page, 0), 2);
    assert_int_equal(audit_page_facts(page, 0, 0, &text), FACTS_MISSING); /* nobody asked for them */
    for (unsigned i = 0; i < 2; i++)                                      /* a second read changes nothing */
        if (!audit_page_load_facts(page, pg, &err).ok) fail_msg("%s", err.message);
    assert_int_equal(audit_page_facts(page, 0, 0, &text), first);
    if (first == FACTS_SOUND) assert_true(bytes_equal(text, bytes_of_text("{\"a\":1}")));
    assert_int_equal(audit_page_facts(page, 0, 1, &text), second);
}

/* A lying gateway commits to a text that is not JSON: it is never shown as JSON. */
static void facts_are_read_with_their_event(void **state)
{
    struct audit_log log;

    (void)state;
    audit_log_open(&log);
    struct record record = record_on("{\"a\":1}", "}, \"b\":{");
    sequencer_submit_and_wait(log.sequencer, &record);
    assert_int_equal(record.status, RECORD_DONE);
    record_done(&record);
    expect_facts(&log, FACTS_SOUND, FACTS_DAMAGED);
    database_execute(log.database, "DELETE FROM audit_facts WHERE position('}' IN convert_from(facts, 'UTF8')) = 1");
    expect_facts(&log, FACTS_SOUND, FACTS_MISSING);
    database_execute(log.database,
                     "ALTER TABLE audit_facts DROP CONSTRAINT audit_facts_digest; UPDATE audit_facts SET facts = '{\"a\":2}'");
    expect_facts(&log, FACTS_DAMAGED, FACTS_MISSING);
    audit_log_close(&log);
}

/* --- a log of version 1 --- */

static struct leaf old_leaf(uint64_t sequence)
{
    struct leaf leaf = {.version = 1,
                        .sequence = sequence,
                        .time_ms = 1795171186000,
                        .source = {"gw0", 1, sequence + 1},
                        .class_uid = 600302,
                        .actor = "system",
                        .outcome = "allowed",
                        .target_count = 1};

    (void)snprintf(leaf.targets[0].action, sizeof leaf.targets[0].action, "blob.read");
    (void)snprintf(leaf.targets[0].resource, sizeof leaf.targets[0].resource, "acme/models/digits");
    leaf_fill_keys(&leaf);
    for (size_t i = 0; i < leaf.key_count; i++) leaf.keys[i].ordinal = sequence + 1;
    return leaf;
}

static struct merkle_hash add_old_entry(struct audit_log *log, uint64_t sequence)
{
    const struct leaf leaf = old_leaf(sequence);
    struct buffer OWNED_BUFFER text = BUFFER(LEAF_MAX);
    struct merkle_hash hash;
    char hex[2 * 1024 + 1], sql[4096];
    struct error err = {0};

    if (!leaf_write(&leaf, &text, &err).ok) fail_msg("%s", err.message);
    assert_true(text.length <= 1024);
    merkle_leaf_hash(buffer_bytes(&text), &hash);
    text_hex(text.data, text.length, hex);
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO audit_entry SELECT %llu, 1795171186000, l, sha256('\\x00'::bytea || l), 'blob.read', 'allowed'"
                   " FROM decode('%s', 'hex') AS l",
                   (unsigned long long)sequence, hex);
    database_execute(log->database, sql);
    return hash;
}

static void add_old_state(struct audit_log *log, const struct merkle_frontier *frontier)
{
    struct buffer OWNED_BUFFER stored = BUFFER(4096);
    char hex[2 * 64 * MERKLE_HASH_SIZE + 1], sql[4 * sizeof hex];
    struct error err = {0};

    assert_true(merkle_frontier_write(frontier, &stored, &err).ok);
    text_hex(stored.data, stored.length, hex);
    (void)snprintf(sql, sizeof sql,
                   "UPDATE audit_log SET origin = '" TEST_ORIGIN "', size = %d, last_ts = 1795171186000,"
                   " frontier = decode('%s', 'hex')",
                   OLD_COUNT, hex);
    database_execute(log->database, sql);
}

/* A log as of gateways of the previous version: without facts, also in the leaves. */
static void write_old_log(struct audit_log *log)
{
    struct merkle_hash hashes[OLD_COUNT];
    struct merkle_frontier frontier = {0};
    char sql[1024];

    for (uint64_t i = 0; i < OLD_COUNT; i++) {
        hashes[i] = add_old_entry(log, i);
        merkle_append(&frontier, &hashes[i]);
    }
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO audit_run (key, last, n, seqs) SELECT substr(sha256(convert_to(k, 'UTF8')), 1, 16), %d, %d,"
                   " array(SELECT generate_series(0, %d)::bigint) FROM unnest(array['act:system', 'org:acme', 'prj:acme/models',"
                   " 'res:acme/models/digits']) AS k",
                   OLD_COUNT - 1, OLD_COUNT, OLD_COUNT - 1);
    database_execute(log->database, sql);
    const struct merkle_hash root = tile_root(hashes, TILE_WIDTH);
    char hex[2 * MERKLE_HASH_SIZE + 1];
    text_hex(root.bytes, sizeof root.bytes, hex);
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO audit_tile SELECT 0, 0, string_agg(leaf_hash, '' ORDER BY seq), decode('%s', 'hex')"
                   " FROM audit_entry WHERE seq < 256",
                   hex);
    database_execute(log->database, sql);
    add_old_state(log, &frontier);
}

static void is_proven(struct audit_log *log, uint64_t sequence, const struct signed_checkpoint *checkpoint)
{
    static const struct pg_table *const tables[] = {&audit_tree_table, NULL};
    OWNED(pg) *pg = NULL;
    struct merkle_proof proof;
    struct merkle_hash hash;
    struct error err = {0};

    assert_true(pg_open(database_app(log->database), tables, &pg, &err).ok);
    assert_true(audit_load_leaf_hashes(pg, sequence, 1, &hash, &err).ok);
    if (!audit_prove_inclusion(pg, sequence, checkpoint->size, &proof, &err).ok) fail_msg("%s", err.message);
    assert_true(merkle_verify_inclusion(sequence, checkpoint->size, &hash, &proof, &checkpoint->root));
}

static void is_sound(struct audit_log *log, const struct signed_checkpoint *checkpoint)
{
    static const struct pg_table *const tables[] = {&audit_tree_table, &audit_check_table, &audit_query_table,
                                                    &audit_erasure_table, NULL};
    OWNED(pg) *pg = NULL;
    OWNED(log_check) *check = NULL;
    struct error err = {0};

    assert_true(pg_open(database_app(log->database), tables, &pg, &err).ok);
    assert_true(log_check_new(pg, &check, &err).ok);
    log_check_against(check, checkpoint->size, &checkpoint->root);
    for (uint64_t i = 0; i * TILE_WIDTH < checkpoint->size; i++)
        if (!log_check_tile(check, i, &err).ok) fail_msg("%s", err.message);
    assert_int_equal(check->unreadable, 0);
}

static void an_old_log_goes_on(void **state)
{
    struct audit_log log;
    struct signed_checkpoint checkpoint;
    struct error err = {0};

    (void)state;
    audit_log_init(&log);
    write_old_log(&log);
    log.sequencer = audit_log_start(&log, "gw1");
    for (unsigned i = 0; i < OLD_COUNT; i++) {
        struct record record = test_record(i % 2 == 0 ? VERDICT_ALLOW : VERDICT_DENY);
        sequencer_submit_and_wait(log.sequencer, &record);
        if (record.status != RECORD_DONE) fail_msg("%s", record.error.message);
        record_done(&record);
    }
    if (!sequencer_await_signed(log.sequencer, 2 * OLD_COUNT - 1, &err).ok) fail_msg("%s", err.message);
    assert_true(sequencer_checkpoint(log.sequencer, &checkpoint, &err).ok);
    assert_int_equal(audit_log_check(&log), 2 * OLD_COUNT);
    expect(
        &log,
        "SELECT string_agg(v || ':' || n, ' ' ORDER BY v) FROM (SELECT convert_from(leaf, 'UTF8')::json ->> 'v' AS v, count(*) AS n"
        " FROM audit_entry GROUP BY 1) AS versions",
        "1:300 2:300");
    expect(&log, "SELECT convert_from(leaf, 'UTF8')::json -> 'k' ->> 'org:acme' FROM audit_entry WHERE seq = 599", "600");
    is_proven(&log, 5, &checkpoint);
    is_proven(&log, OLD_COUNT - 1, &checkpoint);
    is_proven(&log, OLD_COUNT, &checkpoint);
    is_proven(&log, 2 * OLD_COUNT - 1, &checkpoint);
    is_sound(&log, &checkpoint);
    audit_log_close(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pulls_make_one_row),
        cmocka_unit_test(the_same_facts_are_stored_once),
        cmocka_unit_test(facts_of_a_group_that_ran_twice_are_there),
        cmocka_unit_test(the_application_adds_true_rows_alone),
        cmocka_unit_test(facts_are_read_with_their_event),
        cmocka_unit_test(an_old_log_goes_on),
    };

    return cmocka_run_group_tests_name("facts", tests, NULL, NULL);
}
