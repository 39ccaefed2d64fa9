/* What nobody has signed is not sound, however well it fits together: rows of checkpoints that are gone or edited, entries that wait too long for their
 * signature, and entries that are no events. */
#include "tests/unit/dump_fixture.h"

#define LAST_SIGNED ((uint64_t)2 * DUMP_BLOCK) /* without the last of the three checkpoints */

enum change {
    NOTHING,
    NO_CHECKPOINTS,
    WITHOUT_THE_LAST,
    WITHOUT_THE_LAST_AND_OLD,
    WITHOUT_THE_LAST_AND_AHEAD,
    WITHOUT_THE_SECOND,
    NOTE,
    SIZE,
    NOT_AN_EVENT,
    WITHOUT_A_KEY,
    LATER
};

struct copy {
    enum change change;
    struct dump_writer *writer;
    struct buffer *out;
    struct merkle_hash hash;
    uint8_t bytes[2 * LEAF_MAX];
};

static void put(struct copy *copy, struct bytes *bytes, const char *from, const char *to)
{
    assert_true(bytes->length <= sizeof copy->bytes && strlen(from) == strlen(to));
    memcpy(copy->bytes, bytes->data, bytes->length);
    uint8_t *place = memmem(copy->bytes, bytes->length, from, strlen(from));
    if (place == NULL) fail_msg("%.*s has no %s", (int)bytes->length, (const char *)bytes->data, from);
    memcpy(place, to, strlen(to));
    bytes->data = copy->bytes;
}

/* With its hash, as a writer would have done it. */
static void change_entry(struct copy *copy, struct dump_entry *entry)
{
    if (copy->change == NOT_AN_EVENT) entry->leaf = bytes_of_text("x");
    else if (copy->change == WITHOUT_A_KEY) put(copy, &entry->leaf, "\"org:acme\":", "\"org:acmf\":");
    else if (copy->change == LATER) put(copy, &entry->leaf, "\"v\":2", "\"v\":3");
    else return;
    merkle_leaf_hash(entry->leaf, &copy->hash);
    entry->hash = (struct bytes){copy->hash.bytes, sizeof copy->hash.bytes};
}

static bool is_dropped(enum change change, uint64_t size)
{
    if (change == WITHOUT_THE_SECOND) return size == LAST_SIGNED;
    if (change == WITHOUT_THE_LAST || change == WITHOUT_THE_LAST_AND_OLD || change == WITHOUT_THE_LAST_AND_AHEAD)
        return size == ENTRIES;
    return change == NO_CHECKPOINTS;
}

static struct result copy_record(void *context, const struct dump_record *record, struct error *err)
{
    struct copy *copy = context;
    struct dump_record copied = *record;

    if (record->type == DUMP_END || (record->type == DUMP_CHECKPOINT && is_dropped(copy->change, record->checkpoint.size)))
        return SUCCESS;
    if (record->type == DUMP_HEAD && copy->change == WITHOUT_THE_LAST_AND_OLD) copied.head.made_ms += 2 * FSCK_UNSIGNED_MS;
    if (record->type == DUMP_HEAD && copy->change == WITHOUT_THE_LAST_AND_AHEAD) copied.head.made_ms -= 2 * FSCK_UNSIGNED_MS;
    if (record->type == DUMP_ENTRY && record->entry.sequence == 300) change_entry(copy, &copied.entry);
    if (record->type == DUMP_CHECKPOINT && record->checkpoint.size == LAST_SIGNED) {
        if (copy->change == NOTE) put(copy, &copied.checkpoint.note, "8192\n", "8191\n");
        if (copy->change == SIZE) copied.checkpoint.size--;
    }
    return dump_writer_add(copy->writer, &copied, copy->out, err);
}

static void make_changed(enum change change, struct buffer *out)
{
    OWNED(dump_reader) *reader = NULL;
    OWNED(dump_writer) *writer = NULL;
    struct error err = {0};

    must(dump_reader_new(&reader, &err), &err);
    must(dump_writer_new(&writer, &err), &err);
    struct copy copy = {.change = change, .writer = writer, .out = out};
    must(dump_writer_begin(writer, out, &err), &err);
    must(dump_reader_feed(reader, buffer_bytes(&made.bytes), copy_record, &copy, &err), &err);
    must(dump_writer_end(writer, out, &err), &err);
}

static bool has_finding(const struct fsck_report *report, enum fsck_kind kind, uint64_t number, const char *says)
{
    for (size_t i = 0; i < report->shown; i++)
        if (report->first[i].kind == kind && report->first[i].number == number && strstr(report->first[i].what, says) != NULL)
            return true;
    return false;
}

/* In one pass and in three. */
static void what_nobody_has_signed_is_found(void **state)
{
    static const struct {
        enum change change;
        enum fsck_kind kind;
        uint64_t number;
        const char *says;
    } rows[] = {{NO_CHECKPOINTS, FSCK_CHECKPOINT, 0, "nothing vouches for any entry"},
                {WITHOUT_THE_LAST_AND_OLD, FSCK_CHECKPOINT, LAST_SIGNED, "no stored checkpoint covers it"},
                {WITHOUT_THE_LAST_AND_AHEAD, FSCK_CHECKPOINT, LAST_SIGNED, "after the dump was made"},
                {NOTE, FSCK_CHECKPOINT, LAST_SIGNED - 1, "is not signed by the log's key"},
                {SIZE, FSCK_CHECKPOINT, LAST_SIGNED - 2, "is not signed by the log's key"},
                {NOT_AN_EVENT, FSCK_ENTRY, 300, "it can't be read"},
                {WITHOUT_A_KEY, FSCK_ENTRY, 300, "not an event of the log"}};
    struct buffer OWNED_BUFFER text = BUFFER(65536);
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < 2 * COUNT(rows); i++) {
        struct buffer OWNED_BUFFER dump = BUFFER(DUMP_MAX);
        OWNED(fsck) *fsck = new_check(i % 2 == 0 ? FSCK_MEMORY_DEFAULT : SMALL_MEMORY);
        make_changed(rows[i / 2].change, &dump);
        must(check(fsck, buffer_bytes(&dump), 1 << 20, &err), &err);
        if (!has_finding(fsck_report(fsck), rows[i / 2].kind, rows[i / 2].number, rows[i / 2].says))
            fail_msg("%s: not found; the first is: %s", rows[i / 2].says, fsck_report(fsck)->first[0].what);
        assert_false(fsck_heads_text(fsck_report(fsck), &text, &err).ok); /* nobody can make a statement of it */
        assert_int_equal(err.kind, ERROR_DENIED);
    }
}

/* The newest entries may wait for their signature, and a checkpoint that a later one covers may be missing. */
static void what_will_be_signed_is_sound(void **state)
{
    static const enum change rows[] = {NOTHING, WITHOUT_THE_LAST, WITHOUT_THE_SECOND};
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < 2 * COUNT(rows); i++) {
        struct buffer OWNED_BUFFER dump = BUFFER(DUMP_MAX);
        OWNED(fsck) *fsck = new_check(i % 2 == 0 ? FSCK_MEMORY_DEFAULT : SMALL_MEMORY);
        make_changed(rows[i / 2], &dump);
        must(check(fsck, buffer_bytes(&dump), 1 << 20, &err), &err);
        if (fsck_report_count(fsck_report(fsck)) != 0) fail_msg("row %zu: %s", i, fsck_report(fsck)->first[0].what);
    }
}

static void another_key_of_the_same_name_vouches_for_nothing(void **state)
{
    OWNED(fsck) *fsck = new_check(FSCK_MEMORY_DEFAULT);
    struct error err = {0};

    (void)state;
    fsck->keys.keys[0].id[0] ^= 1;
    must(check(fsck, buffer_bytes(&made.bytes), 1 << 20, &err), &err);
    assert_true(has_finding(fsck_report(fsck), FSCK_CHECKPOINT, 0, "nothing vouches for any entry"));
    assert_int_equal(fsck_report(fsck)->foreign, 3);
}

/* It is no finding, but the report does not say that it was compared. */
static void an_entry_of_a_later_version_is_counted(void **state)
{
    struct buffer OWNED_BUFFER dump = BUFFER(DUMP_MAX), OWNED_BUFFER text = BUFFER(65536);
    OWNED(fsck) *fsck = new_check(FSCK_MEMORY_DEFAULT);
    struct error err = {0};

    (void)state;
    make_changed(LATER, &dump);
    must(check(fsck, buffer_bytes(&dump), 1 << 20, &err), &err);
    assert_int_equal(fsck_report(fsck)->unreadable, 1);
    assert_int_equal(fsck_report(fsck)->findings[FSCK_ENTRY], 0);
    const struct fsck_report later = {.origin = MADE_ORIGIN, .size = 9, .signed_size = 9, .unreadable = 2};
    must(fsck_report_text(&later, &text, &err), &err);
    assert_true(strncmp(buffer_text(&text), "Sound as far as this version can read: 2 of 9", 45) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_has_signed_is_found),
        cmocka_unit_test(what_will_be_signed_is_sound),
        cmocka_unit_test(another_key_of_the_same_name_vouches_for_nothing),
        cmocka_unit_test(an_entry_of_a_later_version_is_counted),
    };

    return cmocka_run_group_tests(tests, make, unmake);
}
