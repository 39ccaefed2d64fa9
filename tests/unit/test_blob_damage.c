/* Damage at rest: every field and record changed, cut, swapped, extended, mixed; each is found and named. */
#include "tests/support/unit.h"

#include "base/file.h"
#include "storage/sjb1_priv.h"
#include "tests/support/blob.h"

enum { LENGTH = 3 * 65520 + 1000, RESUMED_AT = 65520 + 10, RECORDS = 4 };

/* One blob in one file, or in two, with its bytes as they should be. */
struct subject {
    struct blob_test test;
    struct blob_content content;
    size_t file_count;
    struct buffer files[2]; /* owned */
    char paths[2][160];
};

static void must(struct result result, const struct error *err)
{
    if (!result.ok) fail_msg("%s", err->message);
}

static void read_file(const char *path, struct buffer *into)
{
    struct error err;

    must(file_read(path, into, &err), &err);
}

static void write_file(const char *path, struct bytes bytes)
{
    struct error err;

    must(file_replace(path, bytes, 0600, &err), &err);
}

/* Content of `seed`; interrupted once when there are to be two files. */
static void close_upload(struct blob_test *test, uint64_t seed, bool is_resumed, struct blob_content *content)
{
    OWNED(blob_writer) *writer = NULL;
    struct error err = {0};
    const struct digest digest = blob_test_digest(DIGEST_SHA256, seed, LENGTH);

    must(blob_test_writer(test, &writer, &err), &err);
    if (is_resumed) {
        must(blob_test_write(writer, seed, RESUMED_AT, 50000, &err), &err);
        must(blob_test_checkpoint(test, writer, &err), &err);
        blob_writer_free(GIVE(writer));
        must(blob_test_writer(test, &writer, &err), &err);
    }
    must(blob_test_write(writer, seed, LENGTH, 50000, &err), &err);
    must(blob_writer_close(writer, &digest, content, &err), &err);
    blob_writer_committed(writer);
    blob_writer_free(GIVE(writer));
}

static void load_files(struct subject *subject)
{
    for (size_t i = 0; i < subject->file_count; i++) {
        blob_test_path(&subject->test, i == 0 ? "e0" : "e1", subject->paths[i]);
        subject->files[i] = BUFFER(1 << 20);
        read_file(subject->paths[i], &subject->files[i]);
    }
}

static void subject_new(struct subject *subject, uint64_t seed, size_t file_count)
{
    struct error err = {0};

    *subject = (struct subject){.file_count = file_count};
    assert_true(blob_test_open(&subject->test, DRIVER_FS, &err));
    close_upload(&subject->test, seed, file_count == 2, &subject->content);
    load_files(subject);
}

static void subject_done(struct subject *subject)
{
    blob_test_done(&subject->test);
    for (size_t i = 0; i < subject->file_count; i++) buffer_done(&subject->files[i]);
}

static void restore(struct subject *subject)
{
    for (size_t i = 0; i < subject->file_count; i++) write_file(subject->paths[i], buffer_bytes(&subject->files[i]));
}

/* What a reader says, at opening or else at checking. */
static void find(struct subject *subject, struct error *err)
{
    OWNED(blob_reader) *reader = NULL;
    static uint8_t all[LENGTH], zeros[LENGTH];

    *err = (struct error){0};
    if (!blob_reader_open(subject->test.store, &subject->test.upload.identity, &subject->content, subject->test.key, &reader, err)
             .ok)
        return;
    const bool is_sound = blob_verify(reader, &(struct blob_verify_options){0}, err).ok;
    struct error read_err = {0};
    assert_int_equal(blob_reader_read(reader, 0, all, LENGTH, &read_err).ok, is_sound);
    if (is_sound) return;
    assert_string_equal(err->message, read_err.message);
    assert_memory_equal(all, zeros, LENGTH); /* never a byte beside an error */
}

static void expect(struct subject *subject, const char *what, const char *name)
{
    struct error err;

    find(subject, &err);
    if (err.kind != ERROR_CORRUPT || strstr(err.message, name) == NULL)
        fail_msg("%s: expected \"%s\", not %s \"%s\"", what, name, error_kind_name(err.kind), err.message);
}

/* Flips a bit, looks, and puts the byte back in place. */
static void flip(struct subject *subject, size_t file, size_t at, const char *name)
{
    const uint8_t flipped = subject->files[file].data[at] ^ (uint8_t)(1U << at % 8);
    char what[64];
    const int descriptor = open(subject->paths[file], O_WRONLY | O_CLOEXEC);

    assert_true(at < subject->files[file].length);
    (void)snprintf(what, sizeof what, "bit in byte %zu of file %zu", at, file);
    assert_int_equal(pwrite(descriptor, &flipped, 1, (off_t)at), 1);
    expect(subject, what, name);
    assert_int_equal(pwrite(descriptor, &subject->files[file].data[at], 1, (off_t)at), 1);
    close(descriptor);
}

static const struct field_row {
    const char *name;
    size_t from, to; /* every byte of these */
    const char *message;
} field_rows[] = {
    {"magic number", 0, 4, "header: the magic number"},
    {"suite", 4, 5, "header: the cipher suite"},
    {"record size", 5, 6, "header: the record size"},
    {"reserved bytes", 6, 8, "header: reserved"},
    {"blob id", 8, 24, "header: the blob id"},
    {"project id", 24, 40, "header: the project"},
    {"region tag", 40, 56, "header: the region"},
    {"commitment", 56, 88, "header: the commitment"},
    {"zeros", 88, 600, "header: the zeros"},
    {"the last zeros", 4000, 4096, "header: the zeros"},
};

static void a_bit_in_each_field_of_the_header(void **state)
{
    const struct field_row *row = *state;
    struct subject subject;

    subject_new(&subject, 1, 1);
    for (size_t at = row->from; at < row->to; at++) flip(&subject, 0, at, row->message);
    subject_done(&subject);
}

static void a_bit_in_each_record(void **state)
{
    static const size_t places[] = {0, 1, 15, 16, 499, 65519, 65520, 65535}; /* of content, then of the tag */
    struct subject subject;

    (void)state;
    subject_new(&subject, 1, 1);
    for (size_t record = 0; record < RECORDS; record++)
        for (size_t i = 0; i < COUNT(places); i++) {
            char name[32];
            size_t place = places[i];
            if (record == RECORDS - 1 && place > 1000) place = 1000 + place % 16; /* the last one is shorter */
            (void)snprintf(name, sizeof name, "record %zu:", record);
            flip(&subject, 0, 4096 + record * 65536 + place, name);
        }
    subject_done(&subject);
}

static void a_bit_in_each_byte_of_the_trailer(void **state)
{
    struct subject subject;

    (void)state;
    subject_new(&subject, 1, 1);
    const size_t end = subject.files[0].length, start = 4096 + 3 * 65536 + 1016;
    for (size_t at = start; at < end - 8; at++) flip(&subject, 0, at, "trailer");
    flip(&subject, 0, end - 8, "footer");
    flip(&subject, 0, end - 7, "footer");
    flip(&subject, 0, end - 6, "trailer");
    flip(&subject, 0, end - 5, "trailer"); /* a length that is possible, but another one */
    for (size_t at = end - 4; at < end; at++) flip(&subject, 0, at, "footer");
    subject_done(&subject);
}

static void a_bit_in_an_earlier_extent(void **state)
{
    struct subject subject;

    (void)state;
    subject_new(&subject, 1, 2);
    flip(&subject, 0, 0, "extent 0: header: the magic number");
    flip(&subject, 0, 60, "extent 0: header: the commitment");
    flip(&subject, 0, 4096 + 7, "record 0:");
    flip(&subject, 1, 60, "header: the commitment");
    flip(&subject, 1, 4096 + 7, "record 1:");
    flip(&subject, 1, 4096 + 2 * 65536 + 7, "record 3:");
    subject_done(&subject);
}

static void a_cut_anywhere(void **state)
{
    static const size_t lengths[] = {0, 1, 88, 4095, 4096, 4097, 4096 + 65536, 4096 + 65536 + 5, 4096 + 3 * 65536};
    struct subject subject;

    (void)state;
    subject_new(&subject, 1, 1);
    for (size_t i = 0; i < COUNT(lengths); i++) {
        write_file(subject.paths[0], (struct bytes){subject.files[0].data, lengths[i]});
        expect(&subject, "a cut", lengths[i] < 4096 ? "header" : "footer");
    }
    for (size_t cut = 1; cut <= 200; cut++) {
        write_file(subject.paths[0], (struct bytes){subject.files[0].data, subject.files[0].length - cut});
        expect(&subject, "a cut of the trailer", "footer");
    }
    subject_done(&subject);

    subject_new(&subject, 1, 2);
    write_file(subject.paths[0], (struct bytes){subject.files[0].data, 4096 + 65535});
    expect(&subject, "a cut of the first extent", "extent 0: it is cut");
    write_file(subject.paths[0], (struct bytes){subject.files[0].data, 100});
    expect(&subject, "a cut of the first extent's header", "extent 0: header");
    subject_done(&subject);
}

static void something_added(void **state)
{
    static const size_t additions[] = {1, 8, 16, 4096, 65536};
    struct subject subject;
    struct error err = {0};
    static uint8_t zeros[65536];

    (void)state;
    subject_new(&subject, 1, 1);
    struct buffer OWNED_BUFFER longer = BUFFER(1 << 20);
    for (size_t i = 0; i < COUNT(additions); i++) {
        const size_t whole = subject.files[0].length, before_trailer = 4096 + 3 * 65536 + 1016;
        buffer_clear(&longer);
        must(buffer_add(&longer, subject.files[0].data, whole, &err), &err);
        must(buffer_add(&longer, zeros, additions[i], &err), &err);
        write_file(subject.paths[0], buffer_bytes(&longer));
        expect(&subject, "bytes at the end", "footer");
        buffer_clear(&longer); /* between the last record and the trailer */
        must(buffer_add(&longer, subject.files[0].data, before_trailer, &err), &err);
        must(buffer_add(&longer, zeros, additions[i], &err), &err);
        must(buffer_add(&longer, subject.files[0].data + before_trailer, whole - before_trailer, &err), &err);
        write_file(subject.paths[0], buffer_bytes(&longer));
        expect(&subject, "bytes before the trailer", "trailer: it does not follow the last record");
    }
    subject_done(&subject);
}

static void records_in_another_order(void **state)
{
    struct subject subject;
    uint8_t record[65536];

    (void)state;
    subject_new(&subject, 1, 1);
    struct buffer *file = &subject.files[0];
    uint8_t *first = file->data + 4096, *second = first + 65536, *third = second + 65536;

    memcpy(record, second, sizeof record); /* swapped */
    memcpy(second, third, sizeof record);
    memcpy(third, record, sizeof record);
    restore(&subject);
    expect(&subject, "records 1 and 2 swapped", "record 1:");
    memcpy(third, second, sizeof record);
    memcpy(second, first, sizeof record); /* duplicated */
    restore(&subject);
    expect(&subject, "record 0 duplicated", "record 1:");
    memcpy(second, record, sizeof record);
    memmove(second, third, file->length - (size_t)(third - file->data)); /* dropped */
    file->length -= sizeof record;
    restore(&subject);
    expect(&subject, "record 1 dropped", "trailer: it does not follow the last record");
    subject_done(&subject);
}

/* Two writers went on from the same checkpoint: one lost the upload, but its bytes verify by themselves. */
static void records_of_two_writers(void **state)
{
    OWNED(blob_writer) *stalled = NULL;
    struct subject subject = {.file_count = 1};
    struct buffer OWNED_BUFFER other = BUFFER(1 << 20);
    struct blob_content unused;
    struct digest digests[2];
    struct error err = {0};
    char path[160];

    (void)state;
    assert_true(blob_test_open(&subject.test, DRIVER_FS, &err));
    must(blob_test_writer(&subject.test, &stalled, &err), &err);
    must(blob_test_write(stalled, 1, RESUMED_AT, 50000, &err), &err);
    must(blob_test_checkpoint(&subject.test, stalled, &err), &err);
    blob_writer_free(GIVE(stalled));
    must(blob_test_writer(&subject.test, &stalled, &err), &err);
    must(blob_test_write(stalled, 2, LENGTH, 50000, &err), &err); /* other content after the checkpoint */
    (void)blob_writer_digests(stalled, digests);
    must(blob_writer_close(stalled, &digests[0], &unused, &err), &err); /* takes e1; nobody commits it */
    blob_test_path(&subject.test, "e1", path);
    read_file(path, &other);                                 /* now, because the commit of the other one removes it */
    close_upload(&subject.test, 1, false, &subject.content); /* takes e2 */
    assert_int_equal(unused.part, 1);
    assert_int_equal(subject.content.part, 2);

    load_files(&subject);
    subject.file_count = 2;
    subject.files[1] = BUFFER(1 << 20);
    blob_test_path(&subject.test, "e2", subject.paths[1]);
    read_file(subject.paths[1], &subject.files[1]);
    assert_int_equal(other.length, subject.files[1].length);

    memcpy(subject.files[1].data + 4096 + 65536, other.data + 4096 + 65536, 65536);
    restore(&subject);
    expect(&subject, "a record of the other writer", "record 2:");
    write_file(subject.paths[1], buffer_bytes(&other));
    expect(&subject, "the file of the other writer", "trailer: the recorded digest is not among those sealed");
    subject.content.digest = digests[0];
    expect(&subject, "its digest, too, under the first one's name", "trailer: it stands in another extent");
    blob_writer_free(GIVE(stalled));
    subject_done(&subject);
}

static void files_that_were_moved(void **state)
{
    struct subject subject, other;
    struct blob_identity *identity = &subject.test.upload.identity;
    struct error err = {0};

    (void)state;
    subject_new(&subject, 1, 2);
    write_file(subject.paths[0], buffer_bytes(&subject.files[1])); /* within the blob */
    expect(&subject, "the second extent for the first", "record 0:");
    restore(&subject);
    write_file(subject.paths[1], buffer_bytes(&subject.files[0]));
    expect(&subject, "the first extent for the second", "footer");
    restore(&subject);

    subject_new(&other, 1, 2);
    write_file(subject.paths[1], buffer_bytes(&other.files[1]));
    expect(&subject, "the file of another blob", "header: the blob id");
    restore(&subject);
    write_file(subject.paths[0], buffer_bytes(&other.files[0]));
    expect(&subject, "an extent of another blob", "extent 0: header: the blob id");
    restore(&subject);
    subject_done(&other);
    const struct blob_identity genuine = *identity;
    identity->project = uuid_random();
    expect(&subject, "another project", "header: the project");
    *identity = genuine;
    unlink(subject.paths[0]);
    find(&subject, &err);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    assert_non_null(strstr(err.message, "extent 0"));
    subject_done(&subject);
}

static void another_region_or_key(void **state)
{
    OWNED(secret) *other_key = NULL;
    OWNED(secret) *genuine = NULL;
    struct subject subject;
    struct error err = {0};

    (void)state;
    subject_new(&subject, 1, 1);
    must(secret_random(32, &other_key, &err), &err);
    genuine = subject.test.key;
    subject.test.key = other_key;
    expect(&subject, "another key", "header: the commitment");
    subject.test.key = GIVE(genuine);

    blob_store_free(subject.test.store);
    must(driver_fs_open(subject.test.folder.path, UINT64_MAX, &subject.test.driver, &err), &err);
    must(blob_store_new(subject.test.driver, "test/away", NULL, &subject.test.store, &err), &err);
    memcpy(subject.test.upload.identity.region, "test/away", sizeof "test/away");
    expect(&subject, "the same folder as another region", "header: the region");
    subject_done(&subject);
}

static void a_row_that_does_not_fit(void **state)
{
    struct subject subject;

    (void)state;
    subject_new(&subject, 1, 1);
    subject.content.length--;
    expect(&subject, "another length", "trailer: it seals");
    subject.content.length++;
    subject.content.digest.bytes[0] ^= 1;
    expect(&subject, "another digest", "trailer: the recorded digest");
    subject.content.digest.algorithm = DIGEST_SHA512; /* not computed */
    expect(&subject, "another algorithm", "trailer: the recorded digest");
    subject_done(&subject);
}

/* ---- Checkpoints ---- */

static void read_checkpoint(struct subject *subject, struct buffer *into, char path[160])
{
    char suffix[34] = "c";

    for (size_t i = 0; i < 16; i++) (void)snprintf(suffix + 1 + 2 * i, 3, "%02x", subject->test.row.digest[i]);
    blob_test_path(&subject->test, suffix, path);
    read_file(path, into);
}

static void refuse(struct subject *subject, enum error_kind kind, const char *message)
{
    struct blob_writer *writer = NULL;
    struct error err = {0};

    assert_false(blob_test_writer(&subject->test, &writer, &err).ok);
    if (err.kind != kind || strstr(err.message, message) == NULL) fail_msg("expected \"%s\", not \"%s\"", message, err.message);
}

static void an_older_checkpoint_is_refused(void **state)
{
    OWNED(blob_writer) *writer = NULL;
    struct subject subject = {0};
    struct buffer OWNED_BUFFER older = BUFFER(1 << 20);
    struct buffer OWNED_BUFFER newer = BUFFER(1 << 20);
    struct error err = {0};
    char path[160];

    (void)state;
    assert_true(blob_test_open(&subject.test, DRIVER_FS, &err));
    must(blob_test_writer(&subject.test, &writer, &err), &err);
    must(blob_test_write(writer, 1, 1000, 1000, &err), &err);
    must(blob_test_checkpoint(&subject.test, writer, &err), &err);
    const struct blob_checkpoint first = subject.test.row;
    read_checkpoint(&subject, &older, path);
    must(blob_test_write(writer, 1, 2000, 1000, &err), &err);
    must(blob_test_checkpoint(&subject.test, writer, &err), &err);
    blob_writer_free(GIVE(writer));

    const struct blob_checkpoint second = subject.test.row;
    read_checkpoint(&subject, &newer, path);
    write_file(path, buffer_bytes(&older)); /* put in the place of the newer one */
    refuse(&subject, ERROR_CORRUPT, "checkpoint: its digest is not the one that was committed");
    subject.test.row = first; /* and its own file is gone */
    refuse(&subject, ERROR_NOT_FOUND, "checkpoint");
    subject.test.row = second;
    for (size_t at = 0; at < newer.length; at += 1 + newer.length / 300) {
        newer.data[at] ^= 4;
        write_file(path, buffer_bytes(&newer));
        newer.data[at] ^= 4;
        refuse(&subject, ERROR_CORRUPT, "checkpoint: its digest");
    }
    write_file(path, buffer_bytes(&newer));
    subject.test.row.sequence++;
    refuse(&subject, ERROR_CORRUPT, "checkpoint: it is an older or a newer one");
    subject.test.row = second;
    subject.test.row.offset--;
    refuse(&subject, ERROR_CORRUPT, "checkpoint: its offset");
    subject.test.row = second;
    subject.test.row.writer_epoch++;
    refuse(&subject, ERROR_CORRUPT, "checkpoint: it is of another writer");
    subject.test.row = second;
    subject.test.upload.upload = uuid_random();
    refuse(&subject, ERROR_CORRUPT, "checkpoint: it is of another upload");
    subject_done(&subject);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(a_bit_in_each_record),
        cmocka_unit_test(a_bit_in_each_byte_of_the_trailer),
        cmocka_unit_test(a_bit_in_an_earlier_extent),
        cmocka_unit_test(a_cut_anywhere),
        cmocka_unit_test(something_added),
        cmocka_unit_test(records_in_another_order),
        cmocka_unit_test(records_of_two_writers),
        cmocka_unit_test(files_that_were_moved),
        cmocka_unit_test(another_region_or_key),
        cmocka_unit_test(a_row_that_does_not_fit),
        cmocka_unit_test(an_older_checkpoint_is_refused),
    };

    return RUN_TABLE(field_rows, a_bit_in_each_field_of_the_header) + cmocka_run_group_tests_name("others", others, NULL, NULL);
}
