/* Uploads that are interrupted and resumed: from a checkpoint, by another writer, or never. */
#include "tests/unit/blob_fixture.h"

#include "storage/sjb1_priv.h"
#include "tests/support/blob.h"

static void checkpoints_replace_each_other(void **state)
{
    OWNED(blob_writer) *writer = NULL;
    struct blob_test test;
    struct blob_content content;
    struct blob_checkpoint again;
    struct error err = {0};
    const struct digest digest = blob_test_digest(DIGEST_SHA256, 3, 300000);

    (void)state;
    assert_true(blob_test_open(&test, DRIVER_FS, &err));
    assert_true(blob_test_writer(&test, &writer, &err).ok);
    assert_int_equal(count_objects(&test), 0);
    for (uint64_t offset = 0; offset <= 300000; offset += 10000) {
        assert_true(blob_test_write(writer, 3, offset, 8192, &err).ok);
        assert_true(blob_test_checkpoint(&test, writer, &err).ok);
        assert_int_equal(test.row.offset, offset);
        assert_int_equal(test.row.sequence, offset / 10000 + 1);
        assert_int_equal(count_objects(&test), offset <= 65520 ? 1000 : 1001);
    }
    assert_true(blob_writer_checkpoint(writer, &again, &err).ok); /* nothing new: the same one */
    assert_memory_equal(&again, &test.row, sizeof again);
    assert_true(blob_writer_close(writer, &digest, &content, &err).ok);
    blob_writer_committed(writer);
    assert_int_equal(count_objects(&test), 1); /* many small PATCHes to one writer stay one extent */
    check_blob(&test, &content, 3);

    assert_true(blob_remove(test.store, &test.upload.identity.blob, &err).ok);
    assert_int_equal(count_objects(&test), 0);
    assert_true(blob_remove(test.store, &test.upload.identity.blob, &err).ok);
    blob_writer_free(GIVE(writer));
    blob_test_done(&test);
}

/* A process died after it stored a checkpoint, and before the row named it. */
static void what_a_dead_writer_left_goes_when_the_blob_is_closed(void **state)
{
    struct blob_test test;
    struct blob_checkpoint lost;
    struct blob_content content;
    struct error err = {0};
    const struct digest digest = blob_test_digest(DIGEST_SHA256, 3, 300000);

    (void)state;
    for (enum blob_test_driver driver = DRIVER_FS; driver <= DRIVER_FLAT; driver++) {
        OWNED(blob_writer) *dead = NULL;
        OWNED(blob_writer) *writer = NULL;
        assert_true(blob_test_open(&test, driver, &err));
        assert_true(blob_test_writer(&test, &dead, &err).ok);
        assert_true(blob_test_write(dead, 3, 200000, 8192, &err).ok);
        assert_true(blob_writer_checkpoint(dead, &lost, &err).ok);
        blob_writer_free(GIVE(dead));
        assert_int_equal(count_objects(&test), 1001);
        assert_true(blob_test_writer(&test, &writer, &err).ok);
        assert_int_equal(blob_writer_offset(writer), 0);
        assert_true(blob_test_write(writer, 3, 300000, 8192, &err).ok);
        assert_true(blob_writer_close(writer, &digest, &content, &err).ok);
        blob_writer_committed(writer);
        check_blob(&test, &content, 3);
        assert_int_equal(count_objects(&test), driver == DRIVER_FLAT ? 2 : 1); /* flat: the whole, and its own extent */
        blob_writer_free(GIVE(writer));
        blob_test_done(&test);
    }
}

static void another_digest_leaves_the_upload_open(void **state)
{
    OWNED(blob_writer) *writer = NULL;
    struct blob_test test;
    struct blob_content content = {.length = 77};
    struct error err = {0};
    struct digest digest = blob_test_digest(DIGEST_SHA256, 1, 100000);

    (void)state;
    assert_true(blob_test_open(&test, DRIVER_FS, &err));
    assert_true(blob_test_writer(&test, &writer, &err).ok);
    assert_true(blob_test_write(writer, 1, 90000, 90000, &err).ok);
    assert_false(blob_writer_close(writer, &digest, &content, &err).ok); /* 10,000 bytes are missing */
    assert_int_equal(err.kind, ERROR_INVALID);
    digest.algorithm = DIGEST_SHA512;
    assert_false(blob_writer_close(writer, &digest, &content, &err).ok); /* not computed */
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_int_equal(content.length, 77);
    digest.algorithm = DIGEST_SHA256;
    assert_true(blob_test_write(writer, 1, 100000, 90000, &err).ok);
    assert_true(blob_writer_close(writer, &digest, &content, &err).ok);
    check_blob(&test, &content, 1);
    assert_false(blob_writer_write(writer, bytes_of_text("more"), &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    blob_writer_free(GIVE(writer));
    blob_test_done(&test);
}

static void a_writer_without_checkpoint_leaves_nothing(void **state)
{
    struct blob_test test;
    struct error err = {0};

    (void)state;
    for (enum blob_test_driver driver = DRIVER_FS; driver <= DRIVER_FLAT; driver++) {
        OWNED(blob_writer) *writer = NULL;
        assert_true(blob_test_open(&test, driver, &err));
        assert_true(blob_test_writer(&test, &writer, &err).ok);
        assert_true(blob_test_write(writer, 1, 2 * MIB, 2 * MIB, &err).ok);
        assert_int_equal(count_objects(&test), 1);
        blob_writer_free(GIVE(writer));
        assert_int_equal(count_objects(&test), 0);
        assert_true(blob_test_writer(&test, &writer, &err).ok);
        assert_true(blob_test_write(writer, 1, 2 * MIB, 2 * MIB, &err).ok);
        assert_true(blob_test_checkpoint(&test, writer, &err).ok);
        blob_writer_free(GIVE(writer));
        assert_true(blob_remove(test.store, &test.upload.identity.blob, &err).ok);
        assert_int_equal(count_objects(&test), 0);
        blob_test_done(&test);
    }
}

static void sha512_survives_an_interruption(void **state)
{
    OWNED(blob_writer) *writer = NULL;
    struct blob_test test;
    struct blob_content content;
    struct error err = {0};
    const struct digest digest = blob_test_digest(DIGEST_SHA512, 5, 200001);

    (void)state;
    assert_true(blob_test_open(&test, DRIVER_FS, &err));
    test.upload.with_sha512 = true;
    assert_true(blob_test_writer(&test, &writer, &err).ok);
    assert_true(blob_test_write(writer, 5, 100003, 5000, &err).ok);
    assert_true(blob_test_checkpoint(&test, writer, &err).ok);
    blob_writer_free(GIVE(writer));

    test.upload.with_sha512 = false;
    assert_false(blob_test_writer(&test, &writer, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    test.upload.with_sha512 = true;
    assert_true(blob_test_writer(&test, &writer, &err).ok);
    assert_int_equal(blob_writer_offset(writer), 100003);
    assert_true(blob_test_write(writer, 5, 200001, 5000, &err).ok);
    assert_true(blob_writer_close(writer, &digest, &content, &err).ok);
    blob_writer_committed(writer);
    assert_int_equal(count_objects(&test), 2);
    check_blob(&test, &content, 5);
    blob_writer_free(GIVE(writer));
    blob_test_done(&test);
}

/* Each time after some records and some bytes; the trailer no longer fits behind the last block. */
static void two_hundred_interruptions(void **state)
{
    struct blob_test test;
    struct blob_content content;
    struct error err = {0};
    const uint64_t step = 65520 + 777;
    const struct digest digest = blob_test_digest(DIGEST_SHA256, 5, 201 * step);

    (void)state;
    for (enum blob_test_driver driver = DRIVER_FS; driver <= DRIVER_FLAT; driver++) {
        OWNED(blob_writer) *writer = NULL;
        assert_true(blob_test_open(&test, driver, &err));
        for (uint64_t i = 1; i <= 200; i++) {
            assert_true(blob_test_writer(&test, &writer, &err).ok);
            assert_true(blob_test_write(writer, 5, i * step, 50000, &err).ok);
            assert_true(blob_test_checkpoint(&test, writer, &err).ok);
            blob_writer_free(GIVE(writer));
        }
        assert_true(blob_test_writer(&test, &writer, &err).ok);
        assert_true(blob_test_write(writer, 5, 201 * step, 50000, &err).ok);
        assert_true(blob_writer_close(writer, &digest, &content, &err).ok);
        assert_int_equal(content.part, 200);
        check_blob(&test, &content, 5);
        blob_writer_free(GIVE(writer));
        blob_test_done(&test);
    }
}

static void extents_are_counted(void **state)
{
    struct sjb1_extents extents = {0};
    struct error err = {0};

    (void)state;
    for (uint32_t i = 0; i < 65536; i++)
        assert_true(sjb1_extents_add(&extents, &(struct sjb1_extent){.first = i, .part = i}, &err).ok);
    assert_false(sjb1_extents_add(&extents, &(struct sjb1_extent){.first = 65536}, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_int_equal(extents.count, 65536);
    sjb1_extents_done(&extents);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(checkpoints_replace_each_other),
        cmocka_unit_test(another_digest_leaves_the_upload_open),
        cmocka_unit_test(what_a_dead_writer_left_goes_when_the_blob_is_closed),
        cmocka_unit_test(a_writer_without_checkpoint_leaves_nothing),
        cmocka_unit_test(sha512_survives_an_interruption),
        cmocka_unit_test(two_hundred_interruptions),
        cmocka_unit_test(extents_are_counted),
    };

    return cmocka_run_group_tests_name("others", others, NULL, NULL);
}
