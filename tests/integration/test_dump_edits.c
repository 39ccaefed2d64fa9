/* A dump of a real log is sound; each edit that a superuser can make is found by its number; and a role that may dump can do nothing else. */
#include "tests/integration/forks_fixture.h"

#include "audit/dump.h"
#include "audit/format/fsck.h"

#define DUMP_MAX ((size_t)64 << 20)

static struct result keep(void *context, struct bytes piece, struct error *err)
{
    return buffer_add(context, piece.data, piece.length, err);
}

static void dump_as(const char *conninfo, struct buffer *out)
{
    const struct audit_dump_options options = {.conninfo = conninfo, .write = keep, .context = out};
    struct audit_dump_released released;
    struct error err = {0};

    buffer_clear(out);
    if (!audit_dump(&options, &released, &err).ok) fail_msg("%s", err.message);
}

static struct fsck *check(const struct audit_log *log, struct bytes dump)
{
    struct buffer OWNED_BUFFER vkey = BUFFER(512);
    const struct keyd_identity identity = identify(log);
    OWNED(fsck) *fsck = NULL;
    struct error err = {0};
    bool again = true;

    must(buffer_add_text(&vkey, identity.log_vkey, &err), &err);
    const struct fsck_options options = {buffer_bytes(&vkey), FSCK_MEMORY_DEFAULT, 2};
    must(fsck_new(&options, &fsck, &err), &err);
    must(fsck_feed(fsck, dump, &err), &err);
    must(fsck_end_pass(fsck, &again, &err), &err);
    assert_false(again);
    return GIVE(fsck);
}

/* ---- edits ---- */

static const char save[] = "CREATE TABLE old_entry AS TABLE audit_entry; CREATE TABLE old_tile AS TABLE audit_tile;"
                           " CREATE TABLE old_run AS TABLE audit_run; CREATE TABLE old_post AS TABLE audit_post;"
                           " CREATE TABLE old_payload AS TABLE audit_payload; CREATE TABLE old_facts AS TABLE audit_facts;"
                           " CREATE TABLE old_blind AS TABLE audit_blind;"
                           " CREATE TABLE old_checkpoint AS SELECT size, root, note FROM audit_checkpoint;"
                           " CREATE TABLE old_log AS TABLE audit_log";
static const char restore[] =
    "TRUNCATE audit_entry, audit_tile, audit_run, audit_post, audit_payload, audit_facts, audit_blind, audit_checkpoint;"
    " INSERT INTO audit_entry TABLE old_entry; INSERT INTO audit_tile TABLE old_tile; INSERT INTO audit_run TABLE old_run;"
    " INSERT INTO audit_post TABLE old_post; INSERT INTO audit_payload TABLE old_payload;"
    " INSERT INTO audit_facts TABLE old_facts; INSERT INTO audit_blind TABLE old_blind;"
    " INSERT INTO audit_checkpoint (size, root, note) SELECT size, root, note FROM old_checkpoint;"
    " UPDATE audit_log l SET size = o.size, last_ts = o.last_ts, frontier = o.frontier FROM old_log o";

#define OTHER_LEAF "convert_to(replace(convert_from(leaf, 'UTF8'), 'digits', 'digitz'), 'UTF8')"
#define OTHER_HASH "sha256('\\x00'::bytea || " OTHER_LEAF ")"
#define ANY        UINT64_MAX

static const struct edit_row {
    const char *name, *sql;
    enum fsck_kind kind;
    uint64_t number;
    const char *says;
} edit_rows[] = {
    {"a leaf", "UPDATE audit_entry SET leaf = " OTHER_LEAF " WHERE seq = 300", FSCK_ENTRY, 300, "do not match the hash"},
    {"a leaf with its hash", "UPDATE audit_entry SET leaf = " OTHER_LEAF ", leaf_hash = " OTHER_HASH " WHERE seq = 300",
     FSCK_TILE, 300, "tile 0/1 has another hash in place 44"},
    {"the last leaf with its hash", "UPDATE audit_entry SET leaf = " OTHER_LEAF ", leaf_hash = " OTHER_HASH " WHERE seq = 599",
     FSCK_CHECKPOINT, 599, "are not those that were signed"},
    {"a hash", "UPDATE audit_entry SET leaf_hash = sha256(leaf) WHERE seq = 7", FSCK_ENTRY, 7, "do not match the hash"},
    {"a bit of a tile",
     "UPDATE audit_tile SET hashes = set_bit(hashes, 8 * 32 * 9, 1 - get_bit(hashes, 8 * 32 * 9)) WHERE idx = 1", FSCK_TILE,
     256 + 9, "in place 9"},
    {"a tile's root", "UPDATE audit_tile SET root = decode(repeat('00', 32), 'hex') WHERE idx = 0", FSCK_TILE, 0, "another root"},
    {"a tile dropped", "DELETE FROM audit_tile WHERE idx = 1", FSCK_TILE, 256, "is missing"},
    {"two leaves swapped with their hashes",
     "UPDATE audit_entry e SET leaf = o.leaf, leaf_hash = o.leaf_hash FROM old_entry o WHERE (e.seq, o.seq) IN ((20, 21), (21, 20))",
     FSCK_ENTRY, 20, "sequence number"},
    {"the time column", "UPDATE audit_entry SET ts = ts + 1 WHERE seq = 5", FSCK_COLUMN, 5, "stored time"},
    {"the action column", "UPDATE audit_entry SET action = 'registry.ping' WHERE seq = 5", FSCK_COLUMN, 5, "stored action"},
    {"the outcome column", "UPDATE audit_entry SET outcome = 'failed' WHERE seq = 599", FSCK_COLUMN, 599, "stored outcome"},
    {"the bytes of an entry that is not archived", "UPDATE audit_entry SET leaf = '' WHERE seq = 300", FSCK_ENTRY, 300,
     "is not archived"},
    {"an entry dropped", "DELETE FROM audit_entry WHERE seq = 400", FSCK_ENTRY, 400, "missing"},
    {"an entry after the end",
     "INSERT INTO audit_entry SELECT seq + 100000, ts, leaf, leaf_hash, action, outcome FROM old_entry WHERE seq = 1", FSCK_STATE,
     600, "after the end"},
    {"the tail, with all that is about it",
     "DELETE FROM audit_entry WHERE seq >= 598; DELETE FROM audit_payload WHERE seq >= 598; UPDATE audit_log SET size = 598",
     FSCK_CHECKPOINT, 598, "the log was truncated"},
    {"a run dropped", "DELETE FROM audit_run WHERE last = (SELECT min(last) FROM audit_run WHERE last > 100)", FSCK_KEY_INDEX,
     ANY, "or not at all"},
    {"a run's number", "UPDATE audit_run SET n = n + 1 WHERE last = (SELECT max(last) FROM audit_run)", FSCK_KEY_INDEX, ANY,
     "number"},
    {"a run that nobody made", "INSERT INTO audit_run VALUES (decode(repeat('07', 16), 'hex'), 9, 1, '{9}')", FSCK_KEY_INDEX, 9,
     "or not at all"},
    {"a run after the end", "INSERT INTO audit_run VALUES (decode(repeat('07', 16), 'hex'), 900, 1, '{900}')", FSCK_KEY_INDEX,
     900, "after the end"},
    {"a row of the index of searches dropped", "DELETE FROM audit_post WHERE key = (SELECT min(key) FROM audit_post)",
     FSCK_SEARCH_INDEX, ANY, "one of its words"},
    {"a list of the index of searches", "UPDATE audit_post SET list = '\\x0011' WHERE key = (SELECT max(key) FROM audit_post)",
     FSCK_SEARCH_INDEX, ANY, "one of its words"},
    {"a list that is none", "UPDATE audit_post SET list = '\\x0011000900' WHERE key = (SELECT max(key) FROM audit_post)",
     FSCK_SEARCH_INDEX, ANY, "no list of places"},
    {"an address of another person",
     "UPDATE audit_blind SET subject = (SELECT id FROM audit_subject s WHERE NOT EXISTS (SELECT FROM audit_payload p"
     " WHERE p.subject = s.subject) LIMIT 1)",
     FSCK_ADDRESS_INDEX, ANY, "under a person"},
    {"a sealed part dropped", "DELETE FROM audit_payload WHERE seq = 44", FSCK_PAYLOAD, 44, "is missing"},
    {"a sealed part cut", "UPDATE audit_payload SET box = '\\x00' WHERE seq = 45", FSCK_PAYLOAD, 45, "is cut"},
    {"facts dropped", "DELETE FROM audit_facts", FSCK_FACTS, 0, "are missing"},
    {"the root beside a checkpoint", "UPDATE audit_checkpoint SET root = sha256(root) WHERE size = 600", FSCK_CHECKPOINT, 599,
     "not the signed one"},
    {"the note of a checkpoint", "UPDATE audit_checkpoint SET note = replace(note, E'\n600\n', E'\n601\n') WHERE size = 600",
     FSCK_CHECKPOINT, 599, "not signed by the log's key"},
    {"the size of a checkpoint", "UPDATE audit_checkpoint SET size = 512 WHERE size = 600", FSCK_CHECKPOINT, 511,
     "not signed by the log's key"},
    {"an entry, and what could tell it",
     "UPDATE audit_entry SET leaf = " OTHER_LEAF ", leaf_hash = " OTHER_HASH " WHERE seq = 599; DELETE FROM audit_checkpoint",
     FSCK_CHECKPOINT, 0, "nothing vouches for any entry"},
    {"the state", "UPDATE audit_log SET frontier = sha256('') || substr(frontier, 33)", FSCK_STATE, 600,
     "hashes of other entries"},
};

static bool is_found(const struct fsck_report *report, const struct edit_row *row)
{
    for (size_t i = 0; i < report->shown; i++)
        if (report->first[i].kind == row->kind && strstr(report->first[i].what, row->says) != NULL &&
            (row->number == ANY || row->number == report->first[i].number))
            return true;
    return false;
}

static void check_edit(struct audit_log *log, const struct edit_row *row, struct buffer *dump)
{
    database_execute(log->database, row->sql);
    dump_as(database_app(log->database), dump);
    OWNED(fsck) *fsck = check(log, buffer_bytes(dump));
    const struct fsck_report *report = fsck_report(fsck);
    if (!is_found(report, row)) {
        struct buffer OWNED_BUFFER text = BUFFER(65536);
        struct error err = {0};
        must(fsck_report_text(report, &text, &err), &err);
        fail_msg("%s: not found in %s", row->name, buffer_text(&text));
    }
    database_execute(log->database, restore);
}

static void is_sound(const struct audit_log *log, struct bytes dump)
{
    OWNED(fsck) *fsck = check(log, dump);
    const struct fsck_report *report = fsck_report(fsck);

    if (fsck_report_count(report) != 0) fail_msg("%llu %s", (unsigned long long)report->first[0].number, report->first[0].what);
    assert_int_equal(report->size, 600);
    assert_int_equal(report->signed_size, 600);
    assert_int_equal(report->indexed, 600);
    assert_int_equal(report->payloads, 600);
}

/* Also that the key is drawn anew for each check, so one of them is not enough to say that sums agree by chance. */
static void every_edit_is_found(void **state)
{
    struct buffer OWNED_BUFFER dump = BUFFER(DUMP_MAX);
    struct audit_log log;

    (void)state;
    audit_log_open(&log);
    record_some(&log, 600);
    wait_until_keyd_signed(&log, 600);
    wait_for_answer(&log, "SELECT count(*) > 0 FROM audit_checkpoint WHERE size = 600", "t");
    stop(&log);
    index_all(&log);
    dump_as(database_app(log.database), &dump);
    is_sound(&log, buffer_bytes(&dump));
    database_execute(log.database, save);
    for (size_t i = 0; i < COUNT(edit_rows); i++) check_edit(&log, &edit_rows[i], &dump);
    dump_as(database_app(log.database), &dump);
    is_sound(&log, buffer_bytes(&dump)); /* or a later row would say what an earlier one left */
    audit_log_close(&log);
}

static void may_not(struct audit_log *log, const char *sql)
{
    char asked[512];

    (void)snprintf(
        asked, sizeof asked,
        "DO $$ BEGIN SET LOCAL ROLE sijil_test_dumper; %s; RAISE EXCEPTION 'it may'; EXCEPTION WHEN insufficient_privilege THEN"
        " RESET ROLE; END $$",
        sql);
    database_execute(log->database, asked);
}

static void a_role_may_dump_and_nothing_else(void **state)
{
    struct buffer OWNED_BUFFER dump = BUFFER(DUMP_MAX), OWNED_BUFFER conninfo = BUFFER(1024);
    struct audit_dump_released released;
    struct error err = {0};
    struct audit_log log;

    (void)state;
    audit_log_open(&log);
    record_some(&log, 20);
    stop(&log);
    database_execute(log.database, "CREATE ROLE sijil_test_dumper LOGIN");
    must(buffer_format(&conninfo, &err, "%s user=sijil_test_dumper", database_app(log.database)), &err);
    const struct audit_dump_options options = {.conninfo = buffer_text(&conninfo), .write = keep, .context = &dump};
    assert_false(audit_dump(&options, &released, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    database_execute(log.database, "SET ROLE sijil_owner; SELECT grant_audit_dump('sijil_test_dumper'); RESET ROLE");
    dump_as(buffer_text(&conninfo), &dump);
    OWNED(fsck) *fsck = check(&log, buffer_bytes(&dump));
    assert_int_equal(fsck_report(fsck)->size, 20);
    may_not(&log, "PERFORM box FROM audit_payload");
    may_not(&log, "PERFORM salt FROM audit_payload");
    may_not(&log, "PERFORM wrapped_key FROM audit_subject");
    may_not(&log, "PERFORM secret_hash FROM robot");
    may_not(&log, "PERFORM subject FROM binding");
    may_not(&log, "INSERT INTO audit_facts VALUES (sha256(''), '')");
    may_not(&log, "DELETE FROM audit_entry");
    may_not(&log, "PERFORM grant_audit_dump('sijil_test_dumper')");
    database_execute(log.database, "DROP OWNED BY sijil_test_dumper; DROP ROLE sijil_test_dumper");
    audit_log_close(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_edit_is_found),
        cmocka_unit_test(a_role_may_dump_and_nothing_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
