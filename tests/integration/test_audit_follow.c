/* What follows the log by number: it reads what was signed, and knows where a client is for the first time. */
#define READER_TABLES &first_place_table, &audit_subject_table, &audit_archive_table, &audit_search_index_table,
#include "audit/archive.h"
#include "audit/audit_store.h"
#include "audit/first_place.h"
#include "audit/search_index.h"
#include "tests/integration/audit_query_fixture.h"

#include <string.h>

#include "audit/follow.h"

#define SIZE 600

static struct signed_checkpoint signed_now(const struct audit_log *log, uint64_t size)
{
    struct signed_checkpoint checkpoint;
    struct error err = {0};

    assert_true(sequencer_await_signed(log->sequencer, size - 1, &err).ok);
    assert_true(sequencer_checkpoint(log->sequencer, &checkpoint, &err).ok);
    assert_int_equal(checkpoint.size, size);
    return checkpoint;
}

#define LEAF(seq) \
    "UPDATE audit_entry SET leaf = convert_to(replace(convert_from(leaf, 'UTF8'), 'digits', 'digitz'), 'UTF8') WHERE seq = " #seq

/* A forged leaf beside the true one, with the same number and with its own hash: as somebody does who may drop the primary key. */
#define FORGED "convert_to(replace(convert_from(leaf, 'UTF8'), 'digits', 'digitz'), 'UTF8')"
#define BESIDE(seq)                                                                  \
    "ALTER TABLE audit_entry DROP CONSTRAINT IF EXISTS audit_entry_pkey;"            \
    " INSERT INTO audit_entry SELECT seq, ts, " FORGED ", sha256('\\x00' || " FORGED \
    "), action, outcome FROM audit_entry WHERE seq = " #seq

/* Edits in a transaction that is undone; and the span that is read, with what is said of it. */
static const struct edit {
    const char *name, *sql;
    struct audit_span span;
    const char *expected; /* of the message; NULL: it is read */
} edits[] = {
    {"nothing", "SELECT 1", {100, 356}, NULL},
    {"nothing: one entry", "SELECT 1", {300, 301}, NULL},
    {"nothing: the end", "SELECT 1", {400, 600}, NULL},
    {"a leaf", LEAF(300), {100, 356}, "entry 300 "},
    {"the first leaf of a tile", LEAF(256), {0, 256}, NULL},
    {"the last leaf of a span", LEAF(355), {100, 356}, "entry 355 "},
    {"a leaf of the last tile", LEAF(599), {400, 600}, "entry 599 "},
    {"a hash beside a leaf",
     "UPDATE audit_entry SET leaf_hash = set_byte(leaf_hash, 0, 1 + get_byte(leaf_hash, 0) % 255) WHERE seq = 520",
     {512, 515},
     "as it was signed"},
    {"another hash of the tile",
     "UPDATE audit_tile SET hashes = set_byte(hashes, 8191, 1 + get_byte(hashes, 8191) % 255) WHERE level = 0 AND idx = 1",
     {300, 310},
     "as it was signed"},
    {"the hash of an entry that is read whole",
     "UPDATE audit_tile SET hashes = set_byte(hashes, 0, 1 + get_byte(hashes, 0) % 255) WHERE idx = 1",
     {256, 512},
     NULL}, /* not used: it is computed */
    {"the root of another tile",
     "UPDATE audit_tile SET root = set_byte(root, 0, 1 + get_byte(root, 0) % 255) WHERE idx = 0",
     {256, 512},
     "as it was signed"},
    {"an entry that is gone", "DELETE FROM audit_entry WHERE seq = 280", {256, 300}, "is missing"},
    {"an entry twice, in place of the next",
     BESIDE(280) "; DELETE FROM audit_entry WHERE seq = 281",
     {256, 300},
     "is there twice"},
    {"an entry twice, in place of the next: a whole tile",
     BESIDE(280) "; DELETE FROM audit_entry WHERE seq = 281",
     {256, 512},
     "is there twice"},
    {"an entry of the next tile in place of one of this",
     BESIDE(512) "; DELETE FROM audit_entry WHERE seq = 281",
     {256, 600},
     "is there twice"},
};

static void check_edit(const struct audit_log *log, struct pg *pg, const struct signed_checkpoint *checkpoint,
                       const struct edit *edit)
{
    OWNED(audit_page) *page = NULL;
    struct error err = {0};

    database_execute(log->database, edit->sql);
    const struct result read = audit_follow(pg, checkpoint, &edit->span, &page, &err);
    if (edit->expected == NULL) {
        if (!read.ok) fail_msg("%s: %s", edit->name, err.message);
        assert_int_equal(audit_page_count(page), edit->span.until - edit->span.from);
    } else if (read.ok || err.kind != ERROR_FORKED || strstr(err.message, edit->expected) == NULL) {
        fail_msg("%s: %s", edit->name, err.message);
    }
}

static void only_what_was_signed_is_followed(void **state)
{
    struct audit_log log;

    (void)state;
    audit_log_open(&log);
    record_some(&log, SIZE);
    const struct signed_checkpoint checkpoint = signed_now(&log, SIZE);
    sequencer_free(log.sequencer); /* it would look at the edits, too */
    log.sequencer = NULL;
    OWNED(pg) *pg = reader(&log);
    database_execute(log.database, "CREATE TABLE old_entry AS TABLE audit_entry; CREATE TABLE old_tile AS TABLE audit_tile");
    for (size_t i = 0; i < COUNT(edits); i++) {
        check_edit(&log, pg, &checkpoint, &edits[i]);
        database_execute(log.database, "DELETE FROM audit_entry; INSERT INTO audit_entry TABLE old_entry; DELETE FROM audit_tile;"
                                       " INSERT INTO audit_tile TABLE old_tile");
    }
    audit_log_close(&log);
}

static void record_from(struct audit_log *log, const char *subject, const char *address, bool is_denied)
{
    struct record record = test_record(is_denied ? VERDICT_DENY : VERDICT_ALLOW);

    record.context.subject = subject;
    record.context.client_address = address;
    sequencer_submit_and_wait(log->sequencer, &record);
    assert_int_equal(record.status, RECORD_DONE);
    record_done(&record);
}

/* Each event, and whether its network is new. */
static const struct visit {
    const char *subject, *address;
    enum { OLD, NEW, DENIED } is;
} visits[] = {
    {"alice", "192.0.2.1", OLD}, /* never seen before: nowhere new */
    {"alice", "192.0.2.9", OLD},
    {"bob", "198.51.100.1", OLD},
    {"alice", "198.51.100.1", NEW},
    {"bob", "192.0.2.1", NEW},
    {"alice", "198.51.100.7", OLD},
    {"alice", "192.0.2.1", OLD},
    {"bob", "192.0.2.2", OLD},
    {"bob", "203.0.113.1", NEW},
    {"bob", "203.0.113.1", OLD},
    /* A refused request from a new place hides no later one, and is no earlier place of somebody that is new. */
    {"carl", "192.0.2.1", OLD},
    {"carl", "203.0.113.7", DENIED},
    {"carl", "203.0.113.7", DENIED},
    {"carl", "203.0.113.7", NEW},
    {"carl", "203.0.113.8", OLD},
    {"dora", "192.0.2.1", DENIED},
    {"dora", "198.51.100.1", OLD},
};

static void check_places(const struct first_place_source *source, struct audit_page *page)
{
    struct first_place place;
    struct error err = {0};
    struct leaf leaf;

    for (size_t i = 0; i < COUNT(visits); i++) {
        if (visits[i].is == DENIED) continue; /* detection does not ask about it */
        assert_true(leaf_read(audit_page_leaf(page, i), &leaf, &err).ok);
        if (!first_place_of(source, page, i, &leaf, &place, &err).ok) fail_msg("%s", err.message);
        if (place.is_new_network != (visits[i].is == NEW))
            fail_msg("event %u is %snew", (unsigned)i, place.is_new_network ? "" : "not ");
        assert_false(place.is_new_country);
    }
}

/* The memo answers as the index would: also when events are looked at again, and after keys are asked for anew. */
static void a_place_is_new_once(void **state)
{
    struct audit_log log;
    struct search_index_state indexed = {.size = 1};
    struct error err = {0};
    OWNED(first_place_memo) *memo = first_place_memo_new();

    (void)state;
    assert_non_null(memo);
    audit_log_open(&log);
    for (size_t i = 0; i < COUNT(visits); i++) record_from(&log, visits[i].subject, visits[i].address, visits[i].is == DENIED);
    const struct signed_checkpoint checkpoint = signed_now(&log, COUNT(visits));
    const struct audit_span span = {0, COUNT(visits)};
    OWNED(pg) *pg = reader(&log);
    OWNED(search_index) *index = NULL;
    OWNED(audit_page) *page = NULL;
    assert_true(search_index_new(pg, keyd_process_client(log.keyd), TEST_ORIGIN, &index, &err).ok);
    while (indexed.indexed < indexed.size) assert_true(search_index_step(index, &indexed, &err).ok);
    assert_true(audit_follow(pg, &checkpoint, &span, &page, &err).ok);
    const struct first_place_source source = {pg, keyd_process_client(log.keyd), TEST_ORIGIN, memo};
    check_places(&source, page);
    check_places(&source, page);
    first_place_memo_begin(memo);
    check_places(&source, page);
    /* What is in memory needs no row; the key of the year is asked for again, and without it nobody was anywhere. */
    database_execute(log.database, "CREATE TABLE old_blind AS TABLE audit_blind; DELETE FROM audit_blind");
    struct first_place place;
    struct leaf leaf;
    assert_true(leaf_read(audit_page_leaf(page, 9), &leaf, &err).ok);
    assert_true(first_place_of(&source, page, 7, &leaf, &place, &err).ok); /* bob, from where event 7 came, at 9 */
    assert_false(place.is_new_network);
    audit_log_close(&log);
}

/* alice's visit of a new network, read again. */
static bool is_still_seen(const struct first_place_source *source, const struct signed_checkpoint *checkpoint)
{
    const struct audit_span span = {0, COUNT(visits)};
    OWNED(audit_page) *page = NULL;
    struct first_place place;
    struct error err = {0};
    struct leaf leaf;

    assert_true(audit_follow(source->pg, checkpoint, &span, &page, &err).ok);
    assert_true(leaf_read(audit_page_leaf(page, 3), &leaf, &err).ok);
    if (!first_place_of(source, page, 3, &leaf, &place, &err).ok) fail_msg("%s", err.message);
    return place.is_new_network;
}

/* Keys stay in memory from page to page, but each page has the row: an erased person's key opens nothing from the next page on. */
static void a_kept_key_needs_its_row(void **state)
{
    struct audit_log log;
    struct search_index_state indexed = {.size = 1};
    struct error err = {0};
    OWNED(first_place_memo) *memo = first_place_memo_new();

    (void)state;
    assert_non_null(memo);
    audit_log_open(&log);
    for (size_t i = 0; i < COUNT(visits); i++) record_from(&log, visits[i].subject, visits[i].address, visits[i].is == DENIED);
    const struct signed_checkpoint checkpoint = signed_now(&log, COUNT(visits));
    OWNED(pg) *pg = reader(&log);
    OWNED(search_index) *index = NULL;
    assert_true(search_index_new(pg, keyd_process_client(log.keyd), TEST_ORIGIN, &index, &err).ok);
    while (indexed.indexed < indexed.size) assert_true(search_index_step(index, &indexed, &err).ok);
    const struct first_place_source source = {pg, keyd_process_client(log.keyd), TEST_ORIGIN, memo};
    assert_true(is_still_seen(&source, &checkpoint));
    database_execute(log.database,
                     "CREATE TABLE old_subject AS TABLE audit_subject;"
                     " UPDATE audit_subject SET wrapped_key = set_byte(wrapped_key, 40, 1 + get_byte(wrapped_key, 40) % 255)");
    assert_false(is_still_seen(&source, &checkpoint));
    database_execute(log.database, "UPDATE audit_subject s SET wrapped_key = o.wrapped_key FROM old_subject o WHERE o.id = s.id");
    assert_true(is_still_seen(&source, &checkpoint));
    database_execute(log.database, "DELETE FROM audit_subject");
    assert_false(is_still_seen(&source, &checkpoint));
    audit_log_close(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_was_signed_is_followed),
        cmocka_unit_test(a_place_is_new_once),
        cmocka_unit_test(a_kept_key_needs_its_row),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
