/* A sound dump of a log has no finding, in one pass or in several; what is damaged, cut or of another log is refused; and the vectors agree. */
#include "tests/unit/dump_fixture.h"

#include "base/file.h"
#include "base/json.h"

static void a_sound_dump_has_no_finding(void **state)
{
    static const struct {
        size_t step;
        uint64_t memory;
        unsigned passes;
    } ways[] = {{1 << 20, FSCK_MEMORY_DEFAULT, 1}, {4099, SMALL_MEMORY, 3}};
    struct buffer OWNED_BUFFER text = BUFFER(65536);
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(ways); i++) {
        OWNED(fsck) *fsck = new_check(ways[i].memory);
        must(check(fsck, buffer_bytes(&made.bytes), ways[i].step, &err), &err);
        const struct fsck_report *report = fsck_report(fsck);
        if (fsck_report_count(report) != 0) fail_msg("%s: %s", fsck_kind_name(report->first[0].kind), report->first[0].what);
        assert_int_equal(report->passes, ways[i].passes);
        assert_int_equal(report->size, ENTRIES);
        assert_int_equal(report->signed_size, ENTRIES);
        assert_int_equal(report->checkpoints, 3);
        assert_int_equal(report->payloads, ENTRIES - 7);
        assert_int_equal(report->erased, 7);
        assert_int_equal(report->facts, MADE_FACTS);
        assert_int_equal(report->bindings, 2);
        assert_true(report->keys > REPOSITORIES && report->tags > 10 && report->unwraps > 0 && report->reads > 1000);
        buffer_clear(&text);
        must(fsck_heads_text(report, &text, &err), &err);
        assert_true(strncmp(buffer_text(&text), "sijil-key-heads/v1\n" MADE_ORIGIN "\n9000\n", 43) == 0);
        must(fsck_report_text(report, &text, &err), &err);
        must(fsck_report_json(report, &text, &err), &err);
    }
}

/* ---- entries whose bytes were released ---- */

#define ARCHIVED ((uint64_t)2 * DUMP_BLOCK)

enum fault { NONE, A_HASH, A_KEPT_EVENT, UNSIGNED, A_TILE_TWICE };

struct copy {
    enum fault fault;
    struct dump_writer *writer;
    struct buffer *out;
    uint64_t released;
    uint8_t hash[MERKLE_HASH_SIZE];
};

/* As the database releases: what tags and bindings follow from stays. */
static bool is_released(const struct copy *copy, const struct dump_entry *entry)
{
    if (entry->sequence == MADE_ERASURE) return copy->fault == A_KEPT_EVENT;
    return entry->sequence < ARCHIVED && bytes_equal(entry->action, bytes_of_text("blob.read"));
}

static void release(struct copy *copy, struct dump_entry *entry)
{
    if (!is_released(copy, entry)) return;
    entry->leaf.length = 0;
    if (++copy->released != 100 || copy->fault != A_HASH) return;
    memcpy(copy->hash, entry->hash.data, sizeof copy->hash);
    copy->hash[3] ^= 1;
    entry->hash.data = copy->hash;
}

static struct result copy_record(void *context, const struct dump_record *record, struct error *err)
{
    static const struct dump_record archive = {.type = DUMP_ARCHIVE, .archive = {ARCHIVED}};
    struct copy *copy = context;
    struct dump_record copied = *record;

    if (record->type == DUMP_END || (record->type == DUMP_CHECKPOINT && copy->fault == UNSIGNED)) return SUCCESS;
    if (record->type == DUMP_ENTRY && record->entry.sequence == 0) TRY(dump_writer_add(copy->writer, &archive, copy->out, err));
    if (record->type == DUMP_ENTRY) release(copy, &copied.entry);
    if (record->type == DUMP_TILE && copy->fault == A_TILE_TWICE) TRY(dump_writer_add(copy->writer, &copied, copy->out, err));
    return dump_writer_add(copy->writer, &copied, copy->out, err);
}

static uint64_t make_released(enum fault fault, struct buffer *out)
{
    OWNED(dump_reader) *reader = NULL;
    OWNED(dump_writer) *writer = NULL;
    struct error err = {0};

    must(dump_reader_new(&reader, &err), &err);
    must(dump_writer_new(&writer, &err), &err);
    struct copy copy = {.fault = fault, .writer = writer, .out = out};
    must(dump_writer_begin(writer, out, &err), &err);
    must(dump_reader_feed(reader, buffer_bytes(&made.bytes), copy_record, &copy, &err), &err);
    must(dump_writer_end(writer, out, &err), &err);
    return copy.released;
}

/* Nothing is damaged, and the report says what was not read. */
static void released_entries_are_told(void **state)
{
    struct buffer OWNED_BUFFER dump = BUFFER(DUMP_MAX), OWNED_BUFFER text = BUFFER(65536);
    struct error err = {0};

    (void)state;
    const uint64_t released = make_released(NONE, &dump);
    assert_true(released > 4000);
    for (size_t i = 0; i < 2; i++) {
        OWNED(fsck) *fsck = new_check(i == 0 ? FSCK_MEMORY_DEFAULT : SMALL_MEMORY);
        must(check(fsck, buffer_bytes(&dump), 1 << 20, &err), &err);
        const struct fsck_report *report = fsck_report(fsck);
        if (fsck_report_count(report) != 0) fail_msg("%s: %s", fsck_kind_name(report->first[0].kind), report->first[0].what);
        assert_int_equal(report->released, released);
        assert_int_equal(report->unreadable, 0);
        assert_true(report->released_last < ARCHIVED && report->released_first < report->released_last);
        buffer_clear(&text);
        must(fsck_report_text(report, &text, &err), &err);
        assert_true(strncmp(buffer_text(&text), "Sound as far as", 15) == 0 && strstr(buffer_text(&text), "not read") != NULL);
        assert_false(fsck_heads_text(report, &text, &err).ok);
        assert_int_equal(err.kind, ERROR_DENIED);
    }
}

static void false_releases_are_found(void **state)
{
    static const struct {
        enum fault fault;
        enum fsck_kind kind;
        const char *says;
    } rows[] = {{A_HASH, FSCK_TILE, "another hash"},
                {A_HASH, FSCK_CHECKPOINT, "not those that were signed"},
                {A_KEPT_EVENT, FSCK_ENTRY, "keeps those of such events"},
                {UNSIGNED, FSCK_ENTRY, "no checkpoint of the dump covers"}};
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buffer OWNED_BUFFER dump = BUFFER(DUMP_MAX);
        OWNED(fsck) *fsck = new_check(FSCK_MEMORY_DEFAULT);
        bool is_found = false;
        (void)make_released(rows[i].fault, &dump);
        must(check(fsck, buffer_bytes(&dump), 1 << 20, &err), &err);
        const struct fsck_report *report = fsck_report(fsck);
        for (size_t k = 0; k < report->shown; k++)
            is_found = is_found || (report->first[k].kind == rows[i].kind && strstr(report->first[k].what, rows[i].says) != NULL);
        if (!is_found) fail_msg("%s: not found", rows[i].says);
    }
}

/* ---- what is no dump ---- */

static void a_tile_that_comes_twice_is_refused(void **state)
{
    struct buffer OWNED_BUFFER dump = BUFFER(DUMP_MAX);
    OWNED(fsck) *fsck = new_check(FSCK_MEMORY_DEFAULT);
    struct error err = {0};

    (void)state;
    (void)make_released(A_TILE_TWICE, &dump);
    assert_false(check(fsck, buffer_bytes(&dump), 1 << 20, &err).ok);
    assert_non_null(strstr(err.message, "tile 0/0 does not stand in its place"));
}

static void a_damaged_dump_is_refused(void **state)
{
    static const double places[] = {0, 0.0001, 0.3, 0.7, 0.95, 1};
    struct buffer OWNED_BUFFER damaged = BUFFER(DUMP_MAX);
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(places); i++) {
        OWNED(fsck) *fsck = new_check(FSCK_MEMORY_DEFAULT);
        buffer_clear(&damaged);
        must(buffer_add(&damaged, made.bytes.data, made.bytes.length, &err), &err);
        damaged.data[(size_t)((double)(damaged.length - 1) * places[i])] ^= 0x40;
        if (check(fsck, buffer_bytes(&damaged), 1 << 20, &err).ok) fail_msg("a dump that is damaged in byte %zu is taken", i);
        assert_true(err.kind == ERROR_INVALID || err.kind == ERROR_DENIED);
    }
}

static void a_cut_dump_is_refused(void **state)
{
    const size_t length = made.bytes.length, cuts[] = {0, 10, 20, 4000, length / 2, length - 1};
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(cuts); i++) {
        OWNED(fsck) *fsck = new_check(FSCK_MEMORY_DEFAULT);
        assert_false(check(fsck, (struct bytes){made.bytes.data, cuts[i]}, 1 << 20, &err).ok);
        assert_int_equal(err.kind, ERROR_INVALID);
        assert_non_null(strstr(err.message, "cut"));
    }
    OWNED(fsck) *fsck = new_check(FSCK_MEMORY_DEFAULT), *longer = new_check(FSCK_MEMORY_DEFAULT);
    bool again = false;
    must(fsck_feed(fsck, buffer_bytes(&made.bytes), &err), &err);
    assert_false(fsck_feed(fsck, (struct bytes){made.bytes.data + 20, 500}, &err).ok);
    must(fsck_feed(longer, buffer_bytes(&made.bytes), &err), &err);
    must(fsck_feed(longer, bytes_of_text("x"), &err), &err); /* less than a record */
    assert_false(fsck_end_pass(longer, &again, &err).ok);
}

static void another_log_is_refused(void **state)
{
    static const char text[] = DUMP_MAGIC;
    struct error err = {0};

    (void)state;
    OWNED(fsck) *fsck = new_check(FSCK_MEMORY_DEFAULT);
    (void)snprintf(fsck->keys.keys[0].name, sizeof fsck->keys.keys[0].name, "another.example/audit");
    assert_false(fsck_feed(fsck, buffer_bytes(&made.bytes), &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    OWNED(fsck) *other = new_check(FSCK_MEMORY_DEFAULT);
    assert_false(fsck_feed(other, bytes_of_text("sijil-audit-dump/v2\n"), &err).ok);
    assert_int_equal(strlen(text), strlen("sijil-audit-dump/v2\n"));
}

static void check_vector(const char *vkey, const json_t *vector)
{
    struct buffer OWNED_BUFFER dump = BUFFER(1 << 20), OWNED_BUFFER said = BUFFER(4096);
    const json_t *statement = json_object_get(vector, "statement");
    OWNED(fsck) *fsck = NULL;
    struct error err = {0};

    must(text_from_base64(&dump, BASE64_STANDARD, bytes_of_text(json_text_of(vector, "dump")), &err), &err);
    const struct fsck_options options = {bytes_of_text(vkey), FSCK_MEMORY_DEFAULT, 1};
    must(fsck_new(&options, &fsck, &err), &err);
    const bool holds = check(fsck, buffer_bytes(&dump), 100, &err).ok && fsck_heads_text(fsck_report(fsck), &said, &err).ok;
    if (holds != json_is_string(statement)) fail_msg("%s: %s", json_text_of(vector, "name"), err.message);
    if (holds) assert_string_equal(buffer_text(&said), json_string_value(statement));
}

/* tests/vectors/audit_dump.py reads the same ones. */
static void vectors_agree(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(1 << 20);
    OWNED_JSON vectors = NULL;
    struct error err = {0};

    (void)state;
    must(file_read(AUDIT_DUMP_VECTORS, &text, &err), &err);
    must(json_read(buffer_bytes(&text), 1 << 20, &vectors, &err), &err);
    const json_t *dumps = json_object_get(vectors, "dumps");
    assert_true(json_array_size(dumps) >= 10);
    for (size_t i = 0; i < json_array_size(dumps); i++) check_vector(json_text_of(vectors, "key"), json_array_get(dumps, i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_agree),
        cmocka_unit_test(a_sound_dump_has_no_finding),
        cmocka_unit_test(released_entries_are_told),
        cmocka_unit_test(false_releases_are_found),
        cmocka_unit_test(a_tile_that_comes_twice_is_refused),
        cmocka_unit_test(a_damaged_dump_is_refused),
        cmocka_unit_test(a_cut_dump_is_refused),
        cmocka_unit_test(another_log_is_refused),
    };

    return cmocka_run_group_tests(tests, make, unmake);
}
