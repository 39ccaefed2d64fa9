/* Blobs of a folder that are too large for the page cache: they are written past it (storage/driver_fs_write.c), and read past it
 * (storage/driver_fs_read.c). */
#include "tests/support/unit.h"

#include <fcntl.h>

#include "tests/support/blob.h"

#define MIB    (UINT64_C(1) << 20)
#define A_READ ((size_t)4 * BLOB_RECORD_PLAIN) /* the length of a pull's reads */
#define LENGTH (5 * MIB + 77)
#define CUT    ((uint64_t)40 * BLOB_RECORD_PLAIN) /* where the second extent begins */

static uint64_t stored_bytes(struct blob_test *test, uint32_t part)
{
    struct driver_part *opened = NULL;
    struct error err = {0};

    assert_true(test->driver->operations->part_open(test->driver, &test->upload.identity.blob, part, &opened, &err).ok);
    const uint64_t size = test->driver->operations->part_size(opened);
    test->driver->operations->part_close(opened);
    return size;
}

/*
 * Whether the kernel has that record of the blob's first extent in memory. If it has all, the file system is in memory, or has no
 * direct I/O.
 */
static bool is_cached(const struct blob_test *test, size_t record)
{
    char path[160];

    blob_test_path(test, "e0", path);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(file >= 0);
    const bool is_there = blob_test_is_cached(file, 4096 + record * 65536, 65536);
    (void)close(file);
    return is_there;
}

static void write_blob(struct blob_test *test, uint64_t length, uint64_t announced)
{
    const struct uuid project = uuid_random();
    const struct digest digest = blob_test_digest(DIGEST_SHA256, 7, length);
    OWNED(blob_writer) *writer = NULL;
    struct blob_content content;
    struct error err = {0};

    test->upload.identity = blob_identity_new(test->store, &project);
    test->row = (struct blob_checkpoint){0};
    assert_true(blob_test_writer(test, &writer, &err).ok);
    if (announced > 0) blob_writer_expect(writer, announced);
    assert_true(blob_test_write(writer, 7, length, 131072, &err).ok);
    assert_true(blob_writer_close(writer, &digest, &content, &err).ok);
    blob_writer_committed(writer);
}

/* Space that is reserved ahead is given back when the blob is closed, and when its writer ends before. */
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

static uint64_t sealed_size(uint64_t length)
{
    const uint64_t records = (length + BLOB_RECORD_PLAIN - 1) / BLOB_RECORD_PLAIN;

    return 4096 + length + 16 * records + 16 + 32 + 1 + 33 + 4 + 28 + 16 + 8; /* docs/formats/sjb1.md: one extent, one digest */
}

/* Exactly the announced space is reserved; only the end shows whether more or less arrived. */
static void room_is_made_for_what_is_announced(void **state)
{
    const uint64_t announced = 3 * MIB + 3, came[] = {announced, announced - 1, announced - 50000, announced + MIB};

    (void)state;
    for (size_t i = 0; i < COUNT(came); i++) {
        const struct digest digest = blob_test_digest(DIGEST_SHA256, 7, came[i]);
        OWNED(blob_writer) *writer = NULL;
        OWNED(blob_reader) *reader = NULL;
        struct blob_test test;
        struct blob_content content;
        struct error err = {0};

        assert_true(blob_test_open(&test, DRIVER_DISK_PAST_CACHE, &err));
        assert_true(blob_test_writer(&test, &writer, &err).ok);
        blob_writer_expect(writer, announced);
        assert_true(blob_test_write(writer, 7, 5 * MIB / 2, 131072, &err).ok);
        const uint64_t room = stored_bytes(&test, 0);
        assert_true(room == sealed_size(announced) || room < sealed_size(5 * MIB / 2)); /* the latter without such writes */
        assert_true(blob_test_write(writer, 7, came[i], 131072, &err).ok);
        assert_true(blob_writer_close(writer, &digest, &content, &err).ok);
        assert_int_equal(stored_bytes(&test, 0), sealed_size(came[i]));
        assert_true(blob_reader_open(test.store, &test.upload.identity, &content, test.key, &reader, &err).ok);
        assert_true(blob_verify(reader, &(struct blob_verify_options){.with_digest = true}, &err).ok);
        blob_reader_free(GIVE(reader));
        blob_writer_free(GIVE(writer));
        blob_test_done(&test);
    }
}

/*
 * A small blob that was just pushed is pulled from memory. The announced length decides that from the first byte on; without it,
 * the reached length.
 */
static void what_is_small_stays_in_the_page_cache(void **state)
{
    static const struct {
        uint64_t length, announced;
        bool begins, ends; /* in the page cache */
    } rows[] = {
        {2 * MIB, 0, true, true},
        {2 * MIB, 2 * MIB, true, true},
        {6 * MIB, 6 * MIB, false, false},
        {6 * MIB, 0, true, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct blob_test test;
        struct error err = {0};
        assert_true(blob_test_open(&test, DRIVER_FS_ON_DISK, &err));
        blob_test_reopen(&test, 4 * MIB);
        write_blob(&test, rows[i].length, rows[i].announced);
        const bool begins = is_cached(&test, 1), ends = is_cached(&test, rows[i].length / BLOB_RECORD_PLAIN - 8);
        blob_test_done(&test);
        if (begins && ends && !rows[i].ends) skip(); /* a file system in memory, or one without such writes */
        assert_int_equal(begins, rows[i].begins);
        assert_int_equal(ends, rows[i].ends);
    }
}

/* ---- Pulls ---- */

/* A blob of two extents in `test`, written past the page cache. */
static struct blob_content open_with_blob(struct blob_test *test)
{
    const struct digest digest = blob_test_digest(DIGEST_SHA256, 3, LENGTH);
    OWNED(blob_writer) *writer = NULL;
    struct blob_content content;
    struct error err = {0};

    assert_true(blob_test_open(test, DRIVER_DISK_PAST_CACHE, &err));
    assert_true(blob_test_writer(test, &writer, &err).ok);
    assert_true(blob_test_write(writer, 3, CUT, 131072, &err).ok);
    assert_true(blob_test_checkpoint(test, writer, &err).ok);
    blob_writer_free(GIVE(writer));
    assert_true(blob_test_writer(test, &writer, &err).ok);
    assert_true(blob_test_write(writer, 3, LENGTH, 131072, &err).ok);
    assert_true(blob_writer_close(writer, &digest, &content, &err).ok);
    blob_writer_committed(writer);
    return content;
}

static struct blob_reader *open_reader(struct blob_test *test, const struct blob_content *content)
{
    struct blob_reader *reader = NULL;
    struct error err = {0};

    assert_true(blob_reader_open(test->store, &test->upload.identity, content, test->key, &reader, &err).ok);
    return reader;
}

static void pull(struct blob_test *test, const struct blob_content *content, uint64_t from, uint64_t to, size_t piece)
{
    OWNED(blob_reader) *reader = open_reader(test, content);
    struct error err = {0};

    if (!blob_test_reads(reader, 3, from, to, piece, &err)) fail_msg("%zu at a time: %s", piece, err.message);
}

static void what_comes_past_the_page_cache_is_the_same(void **state)
{
    static const struct {
        uint64_t from, to;
        size_t piece;
    } pulls[] = {
        {0, LENGTH, A_READ},
        {0, LENGTH, BLOB_RECORD_PLAIN},
        {0, LENGTH, 3 * BLOB_RECORD_PLAIN},
        {0, LENGTH, 100000},
        {MIB + 1, LENGTH, A_READ},
        {CUT - 1, LENGTH - 1, A_READ},
        {3 * BLOB_RECORD_PLAIN, 9 * BLOB_RECORD_PLAIN, A_READ},
        {LENGTH - 80, LENGTH, 7},
        {0, 1, 1},
    };
    struct blob_test test;
    const struct blob_content content = open_with_blob(&test);

    (void)state;
    for (size_t i = 0; i < COUNT(pulls); i++) {
        pull(&test, &content, pulls[i].from, pulls[i].to, pulls[i].piece);
    }
    blob_test_done(&test);
}

/* Reads do not depend on the requested read-ahead. */
static void a_reader_may_go_anywhere(void **state)
{
    struct blob_test test;
    const struct blob_content content = open_with_blob(&test);
    OWNED(blob_reader) *reader = open_reader(&test, &content);
    struct error err = {0};
    uint64_t place = 1;

    (void)state;
    for (size_t i = 0; i < 200; i++) {
        place = place * UINT64_C(6364136223846793005) + 1442695040888963407;
        const uint64_t from = (place >> 33) % LENGTH, count = i % 3 == 0 ? 3 * A_READ : 1 + i * 1000;
        const uint64_t start = i % 2 == 0 ? from : from - from % BLOB_RECORD_PLAIN;
        assert_true(blob_test_reads(reader, 3, start, count < LENGTH - start ? start + count : LENGTH, A_READ, &err));
    }
    blob_reader_free(GIVE(reader));
    blob_test_done(&test);
}

static void what_is_large_is_pulled_past_the_page_cache(void **state)
{
    static uint8_t got[A_READ];
    struct blob_test test;
    struct error err = {0};
    const struct blob_content content = open_with_blob(&test);

    (void)state;
    if (is_cached(&test, 9)) {
        blob_test_done(&test);
        skip();
    }
    for (int pulls = 0; pulls < 2; pulls++) {
        OWNED(blob_reader) *reader = open_reader(&test, &content);
        for (uint64_t at = 0; at + A_READ < LENGTH; at += A_READ) {
            assert_false(at > 0 && at + A_READ < CUT - MIB && blob_reader_read_cached(reader, at, got, A_READ));
            assert_true(blob_reader_read(reader, at, got, A_READ, &err).ok);
        }
        assert_false(is_cached(&test, 21));
    }
    blob_test_reopen(&test, 16 * MIB); /* as if it had been set higher since */
    pull(&test, &content, 0, LENGTH, A_READ);
    assert_true(is_cached(&test, 21));
    OWNED(blob_reader) *reader = open_reader(&test, &content);
    assert_true(blob_reader_read(reader, 0, got, A_READ, &err).ok);
    assert_true(blob_reader_read_cached(reader, A_READ, got, A_READ));
    blob_reader_free(GIVE(reader));
    blob_test_done(&test);
}

/* A check does not count as a pull. */
static void a_check_is_no_pull(void **state)
{
    struct blob_test test;
    struct error err = {0};
    const struct blob_content content = open_with_blob(&test);
    OWNED(blob_reader) *reader = open_reader(&test, &content);

    (void)state;
    assert_true(blob_verify(reader, &(struct blob_verify_options){.with_digest = true}, &err).ok);
    blob_reader_free(GIVE(reader));
    const bool was_cached = is_cached(&test, 9);
    pull(&test, &content, 0, LENGTH, A_READ);
    assert_true(was_cached || !is_cached(&test, 21));
    blob_test_done(&test);
}

/* Seventeen pulls at a time: memory for sixteen. Then they end in the middle, and others begin. */
static void more_pulls_than_memory_go_the_usual_way(void **state)
{
    static uint8_t got[A_READ], expected[A_READ];
    struct blob_reader *readers[17];
    struct blob_test test;
    struct error err = {0};
    const struct blob_content content = open_with_blob(&test);

    (void)state;
    blob_test_fill(3, 0, expected, A_READ);
    for (size_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < COUNT(readers); i++) {
            readers[i] = open_reader(&test, &content);
            assert_true(blob_reader_read(readers[i], 0, got, A_READ, &err).ok);
            assert_memory_equal(got, expected, A_READ);
        }
        for (size_t i = 0; i < COUNT(readers); i++) {
            if (round > 0) assert_true(blob_test_reads(readers[i], 3, A_READ, LENGTH, A_READ, &err));
            blob_reader_free(readers[i]);
        }
    }
    blob_test_done(&test);
}

/* A file that is moved during a pull is pulled to its end; a cut file is an error. */
static void a_file_that_goes_away_or_is_cut_gives_no_wrong_bytes(void **state)
{
    struct blob_test test;
    struct error err = {0};
    char path[160], aside[160];
    const struct blob_content content = open_with_blob(&test);

    (void)state;
    blob_test_path(&test, "e1", path);
    blob_test_path(&test, "aside", aside);
    for (int is_cut = 0; is_cut < 2; is_cut++) {
        OWNED(blob_reader) *reader = open_reader(&test, &content);
        assert_true(blob_test_reads(reader, 3, CUT, CUT + A_READ, A_READ, &err));
        assert_int_equal(is_cut ? truncate(path, 4096 + 7 * 65536) : rename(path, aside), 0);
        const bool same = blob_test_reads(reader, 3, CUT + A_READ, LENGTH, A_READ, &err);
        assert_int_equal(same, is_cut == 0);
        if (is_cut) assert_int_equal(err.kind, ERROR_CORRUPT);
        if (!is_cut) assert_int_equal(rename(aside, path), 0);
    }
    blob_test_done(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_no_more_room_than_it_needs),
        cmocka_unit_test(room_is_made_for_what_is_announced),
        cmocka_unit_test(what_is_small_stays_in_the_page_cache),
        cmocka_unit_test(what_comes_past_the_page_cache_is_the_same),
        cmocka_unit_test(a_reader_may_go_anywhere),
        cmocka_unit_test(what_is_large_is_pulled_past_the_page_cache),
        cmocka_unit_test(a_check_is_no_pull),
        cmocka_unit_test(more_pulls_than_memory_go_the_usual_way),
        cmocka_unit_test(a_file_that_goes_away_or_is_cut_gives_no_wrong_bytes),
    };

    return cmocka_run_group_tests_name("past the page cache", tests, NULL, NULL);
}
