/* Each edit of a record of a dump is found, by its number, in one pass or in several. A dump is written again to the byte. */
#include "tests/unit/dump_fixture.h"

#define ANY UINT64_MAX

static uint8_t scratch[2 * LEAF_MAX + TILE_BYTES]; /* what an edit writes; one edit at a time */
static struct merkle_hash scratch_hash;

struct edit_row {
    const char *name;
    enum dump_type type;
    uint64_t which; /* the number of an entry or a sealed part, or the place among the records of the type */
    bool (*edit)(struct dump_record *record, const struct edit_row *row); /* false: the record is dropped; NULL: likewise */
    const char *from, *to;
    enum fsck_kind kind;
    uint64_t number; /* of the first finding of that kind; ANY */
    const char *says;
};

/* In a leaf of the same length. */
static void replace(struct bytes *bytes, const char *from, const char *to)
{
    assert_true(bytes->length <= sizeof scratch && strlen(from) == strlen(to));
    memcpy(scratch, bytes->data, bytes->length);
    uint8_t *place = memmem(scratch, bytes->length, from, strlen(from));
    if (place == NULL) fail_msg("%.*s has no %s", (int)bytes->length, (const char *)bytes->data, from);
    memcpy(place, to, strlen(to));
    bytes->data = scratch;
}

static bool edit_leaf(struct dump_record *record, const struct edit_row *row)
{
    replace(&record->entry.leaf, row->from, row->to);
    return true;
}

static bool edit_leaf_and_hash(struct dump_record *record, const struct edit_row *row)
{
    replace(&record->entry.leaf, row->from, row->to);
    merkle_leaf_hash(record->entry.leaf, &scratch_hash);
    record->entry.hash = (struct bytes){scratch_hash.bytes, sizeof scratch_hash.bytes};
    return true;
}

static bool drop_leaf(struct dump_record *record, const struct edit_row *row)
{
    (void)row;
    record->entry.leaf.length = 0;
    return true;
}

static bool flip(struct bytes *bytes, size_t at)
{
    memcpy(scratch, bytes->data, bytes->length);
    scratch[at] ^= 1;
    bytes->data = scratch;
    return true;
}

static bool edit_hash(struct dump_record *record, const struct edit_row *row)
{
    (void)row;
    return flip(&record->entry.hash, 31);
}

static bool edit_time(struct dump_record *record, const struct edit_row *row)
{
    (void)row;
    record->entry.time_ms++;
    return true;
}

static bool edit_action(struct dump_record *record, const struct edit_row *row)
{
    record->entry.action = bytes_of_text(row->to);
    return true;
}

static bool edit_outcome(struct dump_record *record, const struct edit_row *row)
{
    record->entry.outcome = bytes_of_text(row->to);
    return true;
}

static bool edit_tile(struct dump_record *record, const struct edit_row *row)
{
    (void)row;
    return flip(&record->tile.hashes, 32 * 5 + 3);
}

static bool edit_tile_root(struct dump_record *record, const struct edit_row *row)
{
    (void)row;
    return flip(&record->tile.root, 0);
}

static bool edit_head_more(struct dump_record *record, const struct edit_row *row)
{
    (void)row;
    record->head.has_more = true;
    return true;
}

static bool edit_head_frontier(struct dump_record *record, const struct edit_row *row)
{
    (void)row;
    return flip(&record->head.frontier, 40);
}

static bool edit_head_time(struct dump_record *record, const struct edit_row *row)
{
    (void)row;
    record->head.last_ms = MADE_START_MS;
    return true;
}

static bool edit_run_ordinal(struct dump_record *record, const struct edit_row *row)
{
    (void)row;
    record->run.ordinal++;
    return true;
}

static bool edit_run_number(struct dump_record *record, const struct edit_row *row)
{
    (void)row;
    memcpy(scratch, record->run.sequences.data, record->run.sequences.length);
    store_u64(scratch, load_u64(scratch) + 1); /* the first number of the row */
    record->run.sequences.data = scratch;
    if (record->run.cardinality == 1) record->run.last++;
    return true;
}

static bool edit_post_key(struct dump_record *record, const struct edit_row *row)
{
    (void)row;
    record->post.key++;
    return true;
}

static bool edit_post_list(struct dump_record *record, const struct edit_row *row)
{
    (void)row;
    return flip(&record->post.list, record->post.list.length - 1);
}

static bool edit_subject(struct dump_record *record, const struct edit_row *row)
{
    (void)row;
    return flip(record->type == DUMP_BLIND ? &record->post.subject : &record->payload.subject, 1);
}

static bool edit_payload_key(struct dump_record *record, const struct edit_row *row)
{
    (void)row;
    record->payload.has_key = false;
    return true;
}

static bool edit_facts(struct dump_record *record, const struct edit_row *row)
{
    (void)row;
    return flip(&record->facts.text, 1);
}

static bool edit_tag_digest(struct dump_record *record, const struct edit_row *row)
{
    (void)row;
    return flip(&record->tag.digest, 20);
}

static bool edit_tag_name(struct dump_record *record, const struct edit_row *row)
{
    record->tag.tag = bytes_of_text(row->to);
    return true;
}

static bool edit_binding_live(struct dump_record *record, const struct edit_row *row)
{
    (void)row;
    record->binding.is_live = true;
    return true;
}

static bool edit_binding_role(struct dump_record *record, const struct edit_row *row)
{
    record->binding.role = bytes_of_text(row->to);
    return true;
}

static bool edit_binding_id(struct dump_record *record, const struct edit_row *row)
{
    (void)row;
    record->binding.id.bytes[3] = 9;
    return true;
}

static bool edit_checkpoint_root(struct dump_record *record, const struct edit_row *row)
{
    (void)row;
    return flip(&record->checkpoint.root, 9);
}

static const struct edit_row edit_rows[] = {
    {"a leaf", DUMP_ENTRY, 300, edit_leaf, "acme/models", "acme/modelz", FSCK_ENTRY, 300, "do not match the hash"},
    {"a leaf with its hash", DUMP_ENTRY, 5000, edit_leaf_and_hash, "blob.read", "blob.rear", FSCK_TILE, 5000,
     "another hash in place 136"},
    {"a leaf with its hash, and the checkpoint sees it", DUMP_ENTRY, 5000, edit_leaf_and_hash, "blob.read", "blob.rear",
     FSCK_CHECKPOINT, 8191, "the first 4096 are"},
    {"a leaf with its hash in the last tile", DUMP_ENTRY, 8990, edit_leaf_and_hash, "local/main", "local/mair", FSCK_CHECKPOINT,
     8999, "are not those that were signed"},
    {"the hash beside a leaf", DUMP_ENTRY, 7, edit_hash, NULL, NULL, FSCK_ENTRY, 7, "do not match the hash"},
    {"the bytes of an entry that is not archived", DUMP_ENTRY, 5000, drop_leaf, NULL, NULL, FSCK_ENTRY, 5000, "is not archived"},
    {"a leaf in another place", DUMP_ENTRY, 22, edit_leaf_and_hash, "\"seq\":22", "\"seq\":23", FSCK_ENTRY, 22,
     "sequence number"},
    {"a time in a leaf", DUMP_ENTRY, 4099, edit_leaf_and_hash, "\"ts\":17", "\"ts\":16", FSCK_ENTRY, 4099, "before the time"},
    {"an entry dropped", DUMP_ENTRY, 4444, NULL, NULL, NULL, FSCK_ENTRY, 4444, "it is missing"},
    {"the last entry dropped", DUMP_ENTRY, 8999, NULL, NULL, NULL, FSCK_ENTRY, 8999, "it is missing"},
    {"the time column", DUMP_ENTRY, 5, edit_time, NULL, NULL, FSCK_COLUMN, 5, "stored time"},
    {"the action column", DUMP_ENTRY, 4096, edit_action, NULL, "registry.ping", FSCK_COLUMN, 4096, "stored action"},
    {"the outcome column", DUMP_ENTRY, 8000, edit_outcome, NULL, "denied", FSCK_COLUMN, 8000, "stored outcome"},
    {"a bit of a tile", DUMP_TILE, 3, edit_tile, NULL, NULL, FSCK_TILE, 3 * 256 + 5, "another hash in place 5"},
    {"the root of a tile", DUMP_TILE, 20, edit_tile_root, NULL, NULL, FSCK_TILE, 20 * 256, "another root"},
    {"a tile dropped", DUMP_TILE, 33, NULL, NULL, NULL, FSCK_TILE, 33 * 256, "is missing"},
    {"rows after the end", DUMP_HEAD, 0, edit_head_more, NULL, NULL, FSCK_STATE, ENTRIES, "after the end"},
    {"the hashes of the state", DUMP_HEAD, 0, edit_head_frontier, NULL, NULL, FSCK_STATE, ENTRIES, "hashes of other entries"},
    {"the time of the state", DUMP_HEAD, 0, edit_head_time, NULL, NULL, FSCK_STATE, ENTRIES - 1, "earlier time"},
    {"the number of a run", DUMP_RUN, 9, edit_run_ordinal, NULL, NULL, FSCK_KEY_INDEX, ANY, "number"},
    {"an entry of a run", DUMP_RUN, 9, edit_run_number, NULL, NULL, FSCK_KEY_INDEX, ANY, "or not at all"},
    {"a run dropped", DUMP_RUN, 30, NULL, NULL, NULL, FSCK_KEY_INDEX, ANY, "or not at all"},
    {"a key of the index of searches", DUMP_POST, 77, edit_post_key, NULL, NULL, FSCK_SEARCH_INDEX, ANY, "one of its words"},
    {"a list of the index of searches", DUMP_POST, 78, edit_post_list, NULL, NULL, FSCK_SEARCH_INDEX, ANY, "one of its words"},
    {"a row of the index of searches dropped", DUMP_POST, 79, NULL, NULL, NULL, FSCK_SEARCH_INDEX, ANY, "one of its words"},
    {"the person of an address", DUMP_BLIND, 4, edit_subject, NULL, NULL, FSCK_ADDRESS_INDEX, 4, "under a person"},
    {"the person of a sealed part", DUMP_PAYLOAD, 6, edit_subject, NULL, NULL, FSCK_ADDRESS_INDEX, 6, "under a person"},
    {"the key of a sealed part", DUMP_PAYLOAD, 4100, edit_payload_key, NULL, NULL, FSCK_PAYLOAD, 4100, "or its key, is missing"},
    {"a sealed part dropped", DUMP_PAYLOAD, 8998, NULL, NULL, NULL, FSCK_PAYLOAD, 8998, "or its key, is missing"},
    {"the person of an erasure", DUMP_ENTRY, MADE_ERASURE, edit_leaf_and_hash, "0011\",\"rgn\"", "0012\",\"rgn\"", FSCK_PAYLOAD,
     17, "7 entries of this actor lack it"},
    {"facts", DUMP_FACTS, 3, edit_facts, NULL, NULL, FSCK_FACTS, ANY, "facts that it commits to"},
    {"facts dropped", DUMP_FACTS, 5, NULL, NULL, NULL, FSCK_FACTS, ANY, "facts that it commits to"},
    {"the digest of a tag", DUMP_TAG, 2, edit_tag_digest, NULL, NULL, FSCK_TAG, ANY, "another manifest"},
    {"a tag that nobody pushed", DUMP_TAG, 2, edit_tag_name, NULL, "t99", FSCK_TAG, ANY,
     "is stored, and by the events there is none"},
    {"a tag that was deleted", DUMP_TAG, 2, edit_tag_name, NULL, "t1", FSCK_TAG, ANY, "by the events there is none"},
    {"a tag dropped", DUMP_TAG, 4, NULL, NULL, NULL, FSCK_TAG, ANY, "a tag that it set is not stored"},
    {"a binding made live", DUMP_BINDING, 0, edit_binding_live, NULL, NULL, FSCK_BINDING, 0, "it was revoked"},
    {"the role of a binding", DUMP_BINDING, 1, edit_binding_role, NULL, "registry-admin", FSCK_BINDING, 1, "another role"},
    {"a binding that nobody granted", DUMP_BINDING, 1, edit_binding_id, NULL, NULL, FSCK_BINDING, ENTRIES,
     "no event has granted it"},
    {"a binding dropped", DUMP_BINDING, 1, NULL, NULL, NULL, FSCK_BINDING, 1, "no event has ended it"},
    {"the root beside a checkpoint", DUMP_CHECKPOINT, 1, edit_checkpoint_root, NULL, NULL, FSCK_CHECKPOINT, 8191,
     "not the signed one"},
    {"a number of unwraps", DUMP_ENTRY, 504, edit_leaf_and_hash, "#504,", "#104,", FSCK_UNWRAPS, 504, "set back"},
};

struct copy {
    const struct edit_row *row;
    struct dump_writer *writer;
    struct buffer *out;
    uint64_t seen; /* records of the type */
};

static bool is_edited(struct copy *copy, const struct dump_record *record)
{
    if (record->type != copy->row->type) return false;
    if (record->type == DUMP_ENTRY) return record->entry.sequence == copy->row->which;
    if (record->type == DUMP_PAYLOAD) return record->payload.sequence == copy->row->which;
    return copy->seen++ == copy->row->which;
}

static struct result copy_record(void *context, const struct dump_record *record, struct error *err)
{
    struct copy *copy = context;
    struct dump_record edited = *record;

    if (record->type == DUMP_END) return SUCCESS;
    if (is_edited(copy, record) && (copy->row->edit == NULL || !copy->row->edit(&edited, copy->row))) return SUCCESS;
    return dump_writer_add(copy->writer, &edited, copy->out, err);
}

/* The dump with one record edited: its last record fits again, because an attacker would do the same. */
static void edit(const struct edit_row *row, struct buffer *out)
{
    OWNED(dump_reader) *reader = NULL;
    OWNED(dump_writer) *writer = NULL;
    struct error err = {0};

    must(dump_reader_new(&reader, &err), &err);
    must(dump_writer_new(&writer, &err), &err);
    struct copy copy = {row, writer, out, 0};
    must(dump_writer_begin(writer, out, &err), &err);
    must(dump_reader_feed(reader, buffer_bytes(&made.bytes), copy_record, &copy, &err), &err);
    must(dump_writer_end(writer, out, &err), &err);
}

static void find_edit(const struct edit_row *row, const struct fsck_report *report)
{
    for (size_t i = 0; i < report->shown; i++)
        if (report->first[i].kind == row->kind && strstr(report->first[i].what, row->says) != NULL &&
            (row->number == ANY || row->number == report->first[i].number))
            return;
    for (size_t i = 0; i < report->shown; i++)
        print_message("%s %llu %s\n", fsck_kind_name(report->first[i].kind), (unsigned long long)report->first[i].number,
                      report->first[i].what);
    fail_msg("%s: not found; %llu findings", row->name, (unsigned long long)fsck_report_count(report));
}

/* Every other edit is looked for in three passes. */
static void an_edit_is_found(void **state)
{
    const struct edit_row *row = *state;
    struct buffer OWNED_BUFFER edited = BUFFER(DUMP_MAX);
    OWNED(fsck) *fsck = new_check((row - edit_rows) % 2 == 0 ? FSCK_MEMORY_DEFAULT : SMALL_MEMORY);
    struct error err = {0};

    edit(row, &edited);
    must(check(fsck, buffer_bytes(&edited), 1 << 20, &err), &err);
    find_edit(row, fsck_report(fsck));
}

/* Each record is read back as it was written, and written again to the byte. */
static void records_are_written_again(void **state)
{
    static const struct edit_row nothing = {.type = DUMP_END};
    struct buffer OWNED_BUFFER again = BUFFER(DUMP_MAX);

    (void)state;
    edit(&nothing, &again);
    assert_int_equal(again.length, made.bytes.length);
    assert_memory_equal(again.data, made.bytes.data, again.length);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(records_are_written_again)};
    struct CMUnitTest edits[COUNT(edit_rows)];

    for (size_t i = 0; i < COUNT(edit_rows); i++)
        edits[i] = (struct CMUnitTest){
            .name = edit_rows[i].name, .test_func = an_edit_is_found, .initial_state = (void *)(uintptr_t)&edit_rows[i]};
    const int failed = cmocka_run_group_tests_name("records", tests, make, unmake);
    return failed + cmocka_run_group_tests_name("edits of a dump", edits, make, unmake);
}
