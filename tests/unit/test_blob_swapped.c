/* Sound records, files and rows of another place, writer, region or time; each is found and named. */
#include "tests/unit/blob_damage_fixture.h"

#include "tests/support/blob.h"

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

/* Two writers continued from the same checkpoint: one lost the upload, but its bytes are valid by themselves. */
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
        cmocka_unit_test(records_in_another_order), cmocka_unit_test(records_of_two_writers),
        cmocka_unit_test(files_that_were_moved),    cmocka_unit_test(another_region_or_key),
        cmocka_unit_test(a_row_that_does_not_fit),  cmocka_unit_test(an_older_checkpoint_is_refused),
    };

    return cmocka_run_group_tests_name("others", others, NULL, NULL);
}
