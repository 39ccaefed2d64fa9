/* Blobs of a folder where memory is dear: they are written past the page cache (storage/driver_fs_write.c). */
#include "tests/support/unit.h"

#include "tests/support/blob.h"

#define MIB (UINT64_C(1) << 20)

static uint64_t stored_bytes(struct blob_test *test, uint32_t part)
{
    struct driver_part *opened = NULL;
    struct error err = {0};

    assert_true(test->driver->operations->part_open(test->driver, &test->upload.identity.blob, part, &opened, &err).ok);
    const uint64_t size = test->driver->operations->part_size(opened);
    test->driver->operations->part_close(opened);
    return size;
}

/* Whether the kernel has the extent's second record in memory. */
static bool is_in_memory(struct blob_test *test, const struct uuid *blob)
{
    static uint8_t got[65536];
    struct driver_part *opened = NULL;
    struct error err = {0};

    assert_true(test->driver->operations->part_open(test->driver, blob, 0, &opened, &err).ok);
    const bool is_there = test->driver->operations->part_read_at_once(opened, 4096 + 65536, got, sizeof got);
    test->driver->operations->part_close(opened);
    return is_there;
}

static void write_blob(struct blob_test *test, uint64_t length)
{
    const struct uuid project = uuid_random();
    const struct digest digest = blob_test_digest(DIGEST_SHA256, 7, length);
    OWNED(blob_writer) *writer = NULL;
    struct blob_content content;
    struct error err = {0};

    test->upload.identity = blob_identity_new(test->store, &project);
    test->row = (struct blob_checkpoint){0};
    assert_true(blob_test_writer(test, &writer, &err).ok);
    assert_true(blob_test_write(writer, 7, length, 131072, &err).ok);
    assert_true(blob_writer_close(writer, &digest, &content, &err).ok);
    blob_writer_committed(writer);
}

/* What is reserved ahead is given back: when the blob is closed, and when its writer goes away before. */
static void takes_no_more_room_than_it_needs(void **state)
{
    const struct digest digest = blob_test_digest(DIGEST_SHA256, 7, 3 * MIB);
    OWNED(blob_writer) *writer = NULL;
    OWNED(blob_reader) *reader = NULL;
    struct blob_test test;
    struct blob_content content;
    struct error err = {0};

    (void)state;
    assert_true(blob_test_open(&test, DRIVER_DISK_PAST_CACHE, &err));
    assert_true(blob_test_writer(&test, &writer, &err).ok);
    assert_true(blob_test_write(writer, 7, 20 * 65520 + 1, 131072, &err).ok);
    assert_true(blob_test_checkpoint(&test, writer, &err).ok);
    assert_true(stored_bytes(&test, 0) >= 4096 + 20 * 65536);
    blob_writer_free(GIVE(writer));
    assert_int_equal(stored_bytes(&test, 0), 4096 + 20 * 65536);
    assert_true(blob_test_writer(&test, &writer, &err).ok);
    assert_true(blob_test_write(writer, 7, 3 * MIB, 131072, &err).ok);
    assert_true(blob_writer_close(writer, &digest, &content, &err).ok);
    assert_true(blob_reader_open(test.store, &test.upload.identity, &content, test.key, &reader, &err).ok);
    assert_true(blob_verify(reader, &(struct blob_verify_options){.with_digest = true}, &err).ok);
    const uint64_t size = stored_bytes(&test, content.part);
    blob_writer_committed(writer);
    blob_writer_free(GIVE(writer));
    blob_reader_free(GIVE(reader));
    assert_int_equal(stored_bytes(&test, content.part), size);
    blob_test_done(&test);
}

/* Where memory is cheap it is in the page cache afterwards, where it is dear it is not; each sixteenth blob sees what it costs. */
static void what_is_dear_goes_past_the_page_cache(void **state)
{
    struct blob_test test;
    struct error err = {0};

    (void)state;
    assert_true(blob_test_open(&test, DRIVER_DISK_PAST_CACHE, &err));
    write_blob(&test, MIB);
    if (is_in_memory(&test, &test.upload.identity.blob)) { /* a file system in memory, or one without such writes */
        blob_test_done(&test);
        skip();
    }
    for (size_t i = 2; i <= 32; i++) {
        write_blob(&test, MIB);
        assert_int_equal(is_in_memory(&test, &test.upload.identity.blob), i % 16 == 0);
    }
    driver_fs_set_cost(test.driver, 0);
    write_blob(&test, MIB);
    assert_true(is_in_memory(&test, &test.upload.identity.blob));
    blob_test_done(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_no_more_room_than_it_needs),
        cmocka_unit_test(what_is_dear_goes_past_the_page_cache),
    };

    return cmocka_run_group_tests_name("past the page cache", tests, NULL, NULL);
}
