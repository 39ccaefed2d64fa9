/* Reading what needs no waiting: blob_reader_read_at_once(). */
#include "tests/support/unit.h"

#include "tests/support/blob.h"

/* What it brings is the same; what it does not bring leaves the reader as it was. */
static void reads_at_once_what_is_in_memory(void **state)
{
    const struct driver_memory_options slow = {.delay_ms = 1};
    static uint8_t content[3 * BLOB_RECORD_PLAIN], read[sizeof content];

    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct blob_test test = {.kind = DRIVER_MEMORY};
        struct blob_content closed;
        struct error err = {0};
        if (kind == 0) assert_true(blob_test_open(&test, DRIVER_FS, &err)); /* whether its file system can is its own matter */
        if (kind > 0) assert_true(driver_memory_open(kind == 1 ? NULL : &slow, &test.driver, &err).ok);
        if (kind > 0) assert_true(blob_test_use(&test, test.driver, &err));
        OWNED(blob_writer) *writer = NULL;
        OWNED(blob_reader) *reader = NULL;
        const struct digest digest = blob_test_digest(DIGEST_SHA256, 9, sizeof content);
        assert_true(blob_test_writer(&test, &writer, &err).ok);
        assert_true(blob_test_write(writer, 9, sizeof content, sizeof content, &err).ok);
        assert_true(blob_writer_close(writer, &digest, &closed, &err).ok);
        blob_test_fill(9, 0, content, sizeof content);
        assert_true(blob_reader_open(test.store, &test.upload.identity, &closed, test.key, &reader, &err).ok);
        for (size_t at = 0; at < sizeof content; at += 50000) {
            const size_t length = sizeof content - at < 70000 ? sizeof content - at : 70000;
            const bool is_read = blob_reader_read_at_once(reader, at, read, length);
            if (kind == 1) assert_true(is_read);
            if (kind == 2 && at == 0) assert_false(is_read); /* later it may have the record still */
            if (!is_read) assert_true(blob_reader_read(reader, at, read, length, &err).ok);
            assert_memory_equal(read, content + at, length);
        }
        assert_false(blob_reader_read_at_once(reader, sizeof content, read, 1));
        blob_reader_free(GIVE(reader));
        blob_writer_free(GIVE(writer));
        blob_test_done(&test);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(reads_at_once_what_is_in_memory)};

    return cmocka_run_group_tests_name("at once", tests, NULL, NULL);
}
