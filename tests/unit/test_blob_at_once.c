/* Reads that need no wait: blob_reader_read_cached(); and the appends of the file driver. */
#include <fcntl.h>

#include "tests/support/unit.h"

#include "crypto/random.h"
#include "tests/support/blob.h"

/* The returned bytes are the same; a read that fails leaves the reader unchanged. */
static void reads_at_once_what_is_in_memory(void **state)
{
    const struct driver_memory_options slow = {.delay_ms = 1};
    static uint8_t content[3 * BLOB_RECORD_PLAIN], read[sizeof content];

    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct blob_test test = {.kind = DRIVER_MEMORY};
        struct blob_content closed;
        struct error err = {0};
        if (kind == 0) assert_true(blob_test_open(&test, DRIVER_FS, &err)); /* not every file system supports it */
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
            const bool is_read = blob_reader_read_cached(reader, at, read, length);
            if (kind == 1) assert_true(is_read);
            if (kind == 2 && at == 0) assert_false(is_read); /* later it may still have the record */
            if (!is_read) assert_true(blob_reader_read(reader, at, read, length, &err).ok);
            assert_memory_equal(read, content + at, length);
        }
        assert_false(blob_reader_read_cached(reader, sizeof content, read, 1));
        blob_reader_free(GIVE(reader));
        blob_writer_free(GIVE(writer));
        blob_test_done(&test);
    }
}

/* A reader that was opened so reads as any other. A blob that needs a wait, or is damaged, is not opened. */
static void opens_at_once_what_is_in_memory(void **state)
{
    static uint8_t content[2 * BLOB_RECORD_PLAIN], read[sizeof content];

    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        struct blob_test test = {.kind = DRIVER_MEMORY};
        struct blob_content closed;
        struct error err = {0};
        assert_true(blob_test_open(&test, kind == 0 ? DRIVER_FS_ON_DISK : DRIVER_MEMORY, &err));
        OWNED(blob_writer) *writer = NULL;
        OWNED(blob_reader) *reader = NULL;
        const struct digest digest = blob_test_digest(DIGEST_SHA256, 9, sizeof content);
        assert_true(blob_test_writer(&test, &writer, &err).ok);
        assert_true(blob_test_write(writer, 9, sizeof content, sizeof content, &err).ok);
        assert_true(blob_writer_close(writer, &digest, &closed, &err).ok);
        blob_test_fill(9, 0, content, sizeof content);
        const bool is_open = blob_reader_open_cached(test.store, &test.upload.identity, &closed, test.key, &reader);
        if (kind == 1) assert_false(is_open); /* this driver has no such function */
        if (is_open) assert_true(blob_reader_read(reader, 0, read, sizeof read, &err).ok);
        if (is_open) assert_memory_equal(read, content, sizeof content);
        blob_reader_free(GIVE(reader));
        closed.length++; /* differs from the trailer */
        assert_false(blob_reader_open_cached(test.store, &test.upload.identity, &closed, test.key, &reader));
        assert_null(reader);
        blob_writer_free(GIVE(writer));
        blob_test_done(&test);
    }
}

enum { PIECES = 10, PIECE = 65536, RECORDS = 200 };

/* How many of ten pieces of a file, of twenty records each, begin in the page cache. */
static unsigned pieces_in_memory(int file)
{
    unsigned found = 0;

    for (size_t i = 0; i < PIECES; i++) found += blob_test_is_cached(file, i * (RECORDS / PIECES) * PIECE, PIECE);
    return found;
}

/* Whether the cached pieces stayed, and no others were added. */
static bool is_left_alone(void)
{
    enum { LENGTH = RECORDS * BLOB_RECORD_PLAIN };
    static uint8_t all[LENGTH + (1 << 20)];
    const struct digest digest = blob_test_digest(DIGEST_SHA256, 4, LENGTH);
    OWNED(blob_writer) *writer = NULL;
    OWNED(blob_reader) *reader = NULL;
    struct blob_test test = {.kind = DRIVER_MEMORY};
    struct blob_content closed;
    struct error err = {0};
    char path[160];

    assert_true(blob_test_open(&test, DRIVER_FS_ON_DISK, &err));
    assert_true(blob_test_writer(&test, &writer, &err).ok);
    assert_true(blob_test_write(writer, 4, LENGTH, 1 << 20, &err).ok);
    assert_true(blob_writer_close(writer, &digest, &closed, &err).ok);
    blob_test_path(&test, "e0", path);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(file >= 0);
    const ssize_t size = pread(file, all, sizeof all, 0); /* all of it is in the page cache now, in whatever way it was written */
    assert_true(size > LENGTH && (size_t)size < sizeof all);
    const unsigned served = pieces_in_memory(file); /* all of them, unless the kernel needs the memory for others */
    assert_true(blob_reader_open(test.store, &test.upload.identity, &closed, test.key, &reader, &err).ok);
    assert_true(blob_verify(reader, &(struct blob_verify_options){0}, &err).ok);
    const bool stays = served == PIECES && pieces_in_memory(file) == PIECES;

    (void)posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    blob_reader_free(GIVE(reader)); /* which has a record of its own in memory */
    assert_true(blob_reader_open(test.store, &test.upload.identity, &closed, test.key, &reader, &err).ok);
    const unsigned before = pieces_in_memory(file);
    (void)posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    assert_true(blob_verify(reader, &(struct blob_verify_options){.with_digest = true}, &err).ok);
    const bool is_gone = pieces_in_memory(file) <= before + 1; /* the kernel may have read ahead after the last piece */
    (void)close(file);
    blob_reader_free(GIVE(reader));
    blob_writer_free(GIVE(writer));
    blob_test_done(&test);
    return stays && is_gone;
}

/*
 * A check leaves the page cache unchanged. But the kernel may drop pages if memory is short, and a question whether pages are
 * there (RWF_NOWAIT) may make it read ahead. So the test tries more than once; a wrong check would fail each time.
 */
static void a_check_leaves_the_page_cache_alone(void **state)
{
    bool is_right = false;

    (void)state;
    for (int i = 0; i < 10 && !is_right; i++) is_right = is_left_alone();
    assert_true(is_right);
}

/* Bytes that wait for the next append or sync get to their place, and nothing is lost or written twice. */
static void odd_appends_to_a_file_lie_one_after_the_other(void **state)
{
    static const uint32_t lengths[] = {135200, 131104, 131104, 1, 65536, 200000, 65552, 3, 70000, 131104};
    const size_t synced_after = 4;
    static uint8_t bytes[1 << 20], back[1 << 20];
    struct blob_test test;
    struct driver_extent *extent = NULL;
    struct driver_part *part = NULL;
    struct error err = {0};
    size_t length = 0;

    (void)state;
    random_bytes(bytes, sizeof bytes);
    assert_true(blob_test_open(&test, DRIVER_FS, &err));
    const struct uuid *blob = &test.upload.identity.blob;
    const struct driver_operations *operations = test.driver->operations;
    assert_true(operations->extent_create(test.driver, blob, &(struct driver_history){0}, &extent, &err).ok);
    for (size_t i = 0; i < COUNT(lengths); length += lengths[i], i++) {
        assert_true(operations->extent_append(extent, (struct bytes){bytes + length, lengths[i]}, &err).ok);
        if (i == synced_after) assert_true(operations->extent_sync(extent, &err).ok);
    }
    assert_true(operations->extent_finish(extent, &err).ok);
    assert_true(operations->part_open(test.driver, blob, operations->extent_part(extent), &part, &err).ok);
    assert_int_equal(operations->part_size(part), length);
    assert_true(operations->part_read(part, 0, back, length, &err).ok);
    assert_memory_equal(back, bytes, length);
    operations->part_close(part);
    operations->extent_close(extent);
    blob_test_done(&test);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_at_once_what_is_in_memory), cmocka_unit_test(opens_at_once_what_is_in_memory),
        cmocka_unit_test(a_check_leaves_the_page_cache_alone), cmocka_unit_test(odd_appends_to_a_file_lie_one_after_the_other)};

    return cmocka_run_group_tests_name("at once", tests, NULL, NULL);
}
