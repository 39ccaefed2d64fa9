/*
 * Sixteen edits that the owner of the database can make, each while the service runs: the service notices it within its stated time, and so does an auditor who
 * checks a dump, unless only an opened sealed part shows it. docs/audit.md, "Time until a change is reported": the verifier's pause and one whole round; here there is no pause, and a round of 600 entries
 * takes less than a second.
 */
#include "tests/integration/forks_fixture.h"

#include "audit/dump.h"
#include "audit/format/fsck.h"
#include "audit/metrics.h"

#define DUMP_MAX  ((size_t)64 << 20)
#define ENTRIES   600
#define WITHIN_MS 60000 /* of a machine that is busy with other tests: a quiet one takes three seconds at most */

/* ---- an auditor with a dump ---- */

static struct result keep(void *context, struct bytes piece, struct error *err)
{
    return buffer_add(context, piece.data, piece.length, err);
}

static struct fsck *check_dump(const struct audit_log *log, struct buffer *dump)
{
    struct buffer OWNED_BUFFER vkey = BUFFER(512);
    const struct audit_dump_options options = {.conninfo = database_app(log->database), .write = keep, .context = dump};
    const struct keyd_identity identity = identify(log);
    struct audit_dump_released released;
    OWNED(fsck) *fsck = NULL;
    struct error err = {0};
    bool again = true;

    buffer_clear(dump);
    must(audit_dump(&options, &released, &err), &err);
    must(buffer_add_text(&vkey, identity.log_vkey, &err), &err);
    const struct fsck_options wanted = {buffer_bytes(&vkey), FSCK_MEMORY_DEFAULT, 2};
    must(fsck_new(&wanted, &fsck, &err), &err);
    must(fsck_feed(fsck, buffer_bytes(dump), &err), &err);
    must(fsck_end_pass(fsck, &again, &err), &err);
    assert_false(again);
    return GIVE(fsck);
}

/* ---- the edits ---- */

static const char save[] =
    "CREATE TABLE old_entry AS TABLE audit_entry; CREATE TABLE old_tile AS TABLE audit_tile;"
    " CREATE TABLE old_run AS TABLE audit_run; CREATE TABLE old_post AS TABLE audit_post; CREATE TABLE old_blind AS TABLE audit_blind; CREATE TABLE old_subject AS TABLE audit_subject;"
    " CREATE TABLE old_payload AS TABLE audit_payload; CREATE TABLE old_log AS TABLE audit_log;"
    " CREATE TABLE old_checkpoint AS SELECT size, root, note FROM audit_checkpoint";
static const char restore[] =
    "TRUNCATE audit_entry, audit_tile, audit_run, audit_post, audit_blind, audit_payload, audit_checkpoint, tag; DELETE FROM scim_user;"
    " INSERT INTO audit_entry TABLE old_entry; INSERT INTO audit_tile TABLE old_tile; INSERT INTO audit_run TABLE old_run;"
    " INSERT INTO audit_post TABLE old_post; INSERT INTO audit_blind TABLE old_blind; INSERT INTO audit_payload TABLE old_payload;"
    " INSERT INTO audit_checkpoint (size, root, note) SELECT size, root, note FROM old_checkpoint;"
    " UPDATE audit_subject s SET wrapped_key = o.wrapped_key FROM old_subject o WHERE o.subject = s.subject;"
    " UPDATE audit_log l SET size = o.size, last_ts = o.last_ts, frontier = o.frontier FROM old_log o";

#define OTHER_LEAF "convert_to(replace(convert_from(leaf, 'UTF8'), 'digits', 'digitz'), 'UTF8')"
/* As if there were a repository with a tag that nobody has pushed. */
#define MADE_TAG                                                                                                                                  \
    "SET session_replication_role = replica;"                                                                                                     \
    " INSERT INTO organisation (organisation_id, name) VALUES ('00000000-0000-0000-0000-000000000001', 'forger')"                                 \
    " ON CONFLICT DO NOTHING; INSERT INTO project (project_id, organisation_id, name, home_region) VALUES"                                        \
    " ('00000000-0000-0000-0000-000000000002', '00000000-0000-0000-0000-000000000001', 'models', 'none/none')"                                    \
    " ON CONFLICT DO NOTHING; INSERT INTO repository (repository_id, project_id, name, full_name) VALUES"                                         \
    " ('00000000-0000-0000-0000-000000000003', '00000000-0000-0000-0000-000000000002', 'digits', 'forger/models/digits') ON CONFLICT DO NOTHING;" \
    " INSERT INTO tag (repository_id, name, manifest_digest) VALUES ('00000000-0000-0000-0000-000000000003', 'forged', 'sha256:"                  \
    "0000000000000000000000000000000000000000000000000000000000000000'); RESET session_replication_role"

/* How the service notices: it stops, and says this; or a metric rises, and the operator is told. */
#define STOPS(words) words, NULL
#define TELLS(name)  NULL, AUDIT_METRIC(name)
/* Its keys are made of sealed parts, which a dump does not open (docs/audit.md, "What fsck can't see"). */
#define NOT_BY_FSCK FSCK_SEARCH_INDEX, NULL

static const struct edit_row {
    const char *name, *sql;
    const char *stops_with;
    struct metric *metric;
    enum fsck_kind kind;
    const char *says;
} rows[] = {
    {"a leaf", "UPDATE audit_entry SET leaf = " OTHER_LEAF " WHERE seq = 300", STOPS("entry 300"), FSCK_ENTRY,
     "do not match the hash"},
    {"a hash", "UPDATE audit_entry SET leaf_hash = sha256(leaf) WHERE seq = 7", STOPS("entry 7"), FSCK_ENTRY,
     "do not match the hash"},
    {"a bit of a tile",
     "UPDATE audit_tile SET hashes = set_bit(hashes, 8 * 32 * 9, 1 - get_bit(hashes, 8 * 32 * 9)) WHERE idx = 1",
     STOPS("tile 0/1"), FSCK_TILE, "in place 9"},
    {"a query column", "UPDATE audit_entry SET action = 'registry.ping' WHERE seq = 5", STOPS("stored action"), FSCK_COLUMN,
     "stored action"},
    {"the tail",
     "DELETE FROM audit_entry WHERE seq >= 598; DELETE FROM audit_payload WHERE seq >= 598; UPDATE audit_log SET size = 598",
     STOPS(""), FSCK_CHECKPOINT, "the log was truncated"},
    {"two leaves swapped",
     "UPDATE audit_entry e SET leaf = o.leaf, leaf_hash = o.leaf_hash FROM old_entry o WHERE (e.seq, o.seq) IN ((20, 21), (21, 20))",
     STOPS("entr"), FSCK_ENTRY, "sequence number"},
    {"an ordinal", "UPDATE audit_run SET n = n + 1 WHERE last = (SELECT max(last) FROM audit_run)", STOPS("number"),
     FSCK_KEY_INDEX, "number"},
    {"a row of an index", "UPDATE audit_post SET list = '\\x0011' WHERE key = (SELECT max(key) FROM audit_post)",
     TELLS(audit_search_missing), FSCK_SEARCH_INDEX, "one of its words"},
    {"a row of the index of addresses", "DELETE FROM audit_blind WHERE key = (SELECT max(key) FROM audit_blind)",
     TELLS(audit_search_missing), NOT_BY_FSCK},
    {"a place in that index", "UPDATE audit_blind SET list = '\\x0011' WHERE key = (SELECT min(key) FROM audit_blind)",
     TELLS(audit_search_missing), NOT_BY_FSCK},
    {"the key of the index of addresses",
     "UPDATE audit_subject SET wrapped_key = set_byte(wrapped_key, 20, get_byte(wrapped_key, 20) # 1)"
     " WHERE subject NOT IN (SELECT subject FROM audit_payload WHERE subject IS NOT NULL)",
     TELLS(audit_search_missing), NOT_BY_FSCK},
    {"a row dropped", "DELETE FROM audit_entry WHERE seq = 400", STOPS("entry 400"), FSCK_ENTRY, "missing"},
    {"a tag", MADE_TAG, TELLS(audit_rows_wrong), FSCK_TAG, "there is none"},
    {"a person of SCIM",
     "INSERT INTO scim_user (user_id, issuer, external_id, active) VALUES (gen_random_uuid(), 'https://id.example', 'intruder', true)",
     TELLS(audit_rows_wrong), FSCK_PROVISIONED, "no event has made it"},
    {"a sealed part", "UPDATE audit_payload SET salt = sha256(salt), box = '\\x00' WHERE seq = 45", TELLS(audit_payloads_damaged),
     FSCK_PAYLOAD, "is cut"},
    {"a row of a checkpoint", "UPDATE audit_checkpoint SET root = sha256(root) WHERE size = 600",
     TELLS(audit_foreign_checkpoints), FSCK_CHECKPOINT, "not the signed one"},
};

static bool is_found(const struct fsck_report *report, const struct edit_row *row)
{
    for (size_t i = 0; i < report->shown; i++)
        if (report->first[i].kind == row->kind && strstr(report->first[i].what, row->says) != NULL) return true;
    return false;
}

static void fsck_finds(const struct audit_log *log, const struct edit_row *row, struct buffer *dump)
{
    struct buffer OWNED_BUFFER text = BUFFER(65536);
    OWNED(fsck) *fsck = check_dump(log, dump);
    struct error err = {0};

    if (row->says == NULL) assert_int_equal(fsck_report_count(fsck_report(fsck)), 0);
    if (row->says == NULL || is_found(fsck_report(fsck), row)) return;
    must(fsck_report_text(fsck_report(fsck), &text, &err), &err);
    fail_msg("%s: fsck does not find it: %s", row->name, buffer_text(&text));
}

static bool has_noticed(const struct audit_log *log, const struct edit_row *row)
{
    struct error err = {0};

    if (row->stops_with == NULL) return metric_value(row->metric) > 0 && atomic_load(&notices) > 0;
    if (sequencer_is_ready(log->sequencer, &err)) return false;
    if (err.kind != ERROR_FORKED || strstr(err.message, row->stops_with) == NULL) fail_msg("%s: %s", row->name, err.message);
    return true;
}

/* The service as it serves, and the edit comes from beside. */
static void the_service_notices(struct audit_log *log, const struct edit_row *row, struct buffer *dump)
{
    log->sequencer = start_with_notice(log);
    struct log_verifier *walking = start_verifier(log, 600);
    const int64_t began_ms = clock_monotonic_ms();

    if (row->stops_with == NULL) metric_set(row->metric, 0); /* an earlier edit may have raised it */
    atomic_store(&notices, 0);
    database_execute(log->database, row->sql);
    while (!has_noticed(log, row)) {
        if (clock_monotonic_ms() - began_ms > WITHIN_MS) fail_msg("%s: the service has not noticed it", row->name);
        (void)usleep(5000);
    }
    print_message("%s: %lld ms\n", row->name, (long long)(clock_monotonic_ms() - began_ms));
    fsck_finds(log, row, dump);
    log_verifier_free(walking);
    stop(log);
}

static void go_back(struct audit_log *log, const struct edit_row *row)
{
    static const char *const options[] = {"--log-restored", NULL};
    char said[2048];

    if (row->stops_with != NULL) start_is_refused(log, row->stops_with); /* also after a restart, until an operator has looked */
    database_execute(log->database, restore);
    if (row->stops_with != NULL) assert_int_equal(keyd_process_run(log->keyd, options, said, sizeof said), 0);
}

static void each_edit_is_found_by_the_service_and_by_fsck(void **state)
{
    struct buffer OWNED_BUFFER dump = BUFFER(DUMP_MAX);
    struct audit_log log;

    (void)state;
    audit_log_open(&log);
    record_some(&log, ENTRIES);
    wait_until_keyd_signed(&log, ENTRIES);
    wait_for_answer(&log, "SELECT count(*) > 0 FROM audit_checkpoint WHERE size = 600", "t");
    stop(&log);
    index_all(&log);
    database_execute(log.database, save);
    for (size_t i = 0; i < COUNT(rows); i++) {
        the_service_notices(&log, &rows[i], &dump);
        go_back(&log, &rows[i]);
    }
    OWNED(fsck) *fsck = check_dump(&log, &dump); /* or a later row would say what an earlier one left */
    assert_int_equal(fsck_report_count(fsck_report(fsck)), 0);
    assert_int_equal(fsck_report(fsck)->size, ENTRIES);
    audit_log_close(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_edit_is_found_by_the_service_and_by_fsck)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
