/* Sealed blobs that nothing goes wrong with, and uploads that are interrupted. */
#include "tests/support/unit.h"

#include <pthread.h>
#include <sys/resource.h>

#include "storage/sjb1_priv.h"
#include "tests/support/blob.h"

#define MIB (1 << 20)

static const struct round_row {
    const char *name;
    uint64_t length;
    size_t piece;
    enum blob_test_driver driver;
    bool with_sha512;
} round_rows[] = {
    {"nothing", 0, 1, DRIVER_FS, false},
    {"nothing, with sha512", 0, 1, DRIVER_MEMORY, true},
    {"one byte", 1, 1, DRIVER_FS, true},
    {"one byte less than a record", 65519, 65519, DRIVER_FS, false},
    {"a record", 65520, 65520, DRIVER_FS, false},
    {"a record in single bytes", 65520, 1, DRIVER_MEMORY, false},
    {"one byte more than a record", 65521, 65521, DRIVER_FS, false},
    {"the byte after a record comes alone", 65521, 65520, DRIVER_MEMORY, false},
    {"two records", 131040, 131040, DRIVER_FS, false},
    {"seven records in odd pieces", 7 * 65520, 4099, DRIVER_FS_ON_DISK, true},
    {"1 MiB - 1", MIB - 1, 131072, DRIVER_FS, false},
    {"1 MiB", MIB, MIB, DRIVER_FS, false},
    {"1 MiB + 1", MIB + 1, 131072, DRIVER_FLAT, false},
    {"a full block of records", 16 * 65520, 131072, DRIVER_FS, false},
    {"a full block of records in one piece", 16 * 65520, 16 * 65520, DRIVER_MEMORY, false},
    {"a full block of records and a byte", 16 * 65520 + 1, 131072, DRIVER_FS, false},
    {"two full blocks and a record", 33 * 65520, 5 * MIB, DRIVER_FLAT, true},
    {"64 MiB + 5", 64 * MIB + 5, 131072, DRIVER_FS_ON_DISK, false},
    {"a record past the page cache", 65520, 65520, DRIVER_DISK_PAST_CACHE, false},
    {"1 MiB past the page cache", MIB, 131072, DRIVER_DISK_PAST_CACHE, true},
    {"a full block of records past the page cache", 16 * 65520, 131072, DRIVER_DISK_PAST_CACHE, false},
    {"seven blocks and a byte past the page cache", 28 * 65520 + 1, 7777, DRIVER_DISK_PAST_CACHE, false},
    {"20 MiB + 5 past the page cache", 20 * MIB + 5, 131072, DRIVER_DISK_PAST_CACHE, false},
};

static void check_ranges(struct blob_reader *reader, uint64_t seed, uint64_t length)
{
    static const uint64_t edges[] = {0, 1, 65519, 65520, 65521, 131039, 131040, 262080, 262081, 1048576};
    struct error err = {0};

    for (size_t i = 0; i < COUNT(edges); i++)
        for (size_t size = 1; size <= 200000 && edges[i] + size <= length; size = size * 7 + 1)
            assert_true(blob_test_reads(reader, seed, edges[i], edges[i] + size, size, &err));
    for (uint64_t back = 1; back <= length && back < 200000; back = back * 5 + 3)
        assert_true(blob_test_reads(reader, seed, length - back, length, (size_t)back, &err));
}

static void check_blob(struct blob_test *test, const struct blob_content *content, uint64_t seed)
{
    OWNED(blob_reader) *reader = NULL;
    struct error err = {0};
    uint8_t byte = 0;

    if (!blob_reader_open(test->store, &test->upload.identity, content, test->key, &reader, &err).ok) fail_msg("%s", err.message);
    assert_int_equal(blob_reader_length(reader), content->length);
    assert_true(blob_test_reads(reader, seed, 0, content->length, BLOB_READ_SIZE, &err));
    assert_true(blob_test_reads(reader, seed, 0, content->length, 256 << 10, &err));
    check_ranges(reader, seed, content->length);
    assert_true(blob_reader_read(reader, content->length, &byte, 0, &err).ok);
    assert_false(blob_reader_read(reader, content->length, &byte, 1, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_true(blob_verify(reader, &(struct blob_verify_options){.with_digest = true}, &err).ok);
}

static void makes_a_round_trip(void **state)
{
    const struct round_row *row = *state;
    OWNED(blob_writer) *writer = NULL;
    struct blob_test test;
    struct blob_content content;
    struct error err = {0};

    assert_true(blob_test_open(&test, row->driver, &err));
    test.upload.with_sha512 = row->with_sha512;
    assert_true(blob_test_writer(&test, &writer, &err).ok);
    assert_true(blob_test_write(writer, 7, row->length, row->piece, &err).ok);
    assert_int_equal(blob_writer_offset(writer), row->length);
    assert_int_equal(blob_writer_is_checkpoint_due(writer), row->length >= BLOB_CHECKPOINT_EVERY);
    for (enum digest_algorithm algorithm = DIGEST_SHA256; algorithm <= DIGEST_SHA512; algorithm++) {
        if (algorithm == DIGEST_SHA512 && !row->with_sha512) break;
        const struct digest digest = blob_test_digest(algorithm, 7, row->length);
        if (algorithm == DIGEST_SHA256) assert_true(blob_writer_close(writer, &digest, &content, &err).ok);
        content.digest = digest; /* it is served under each */
        check_blob(&test, &content, 7);
    }
    blob_writer_committed(writer);
    blob_writer_free(GIVE(writer));
    blob_test_done(&test);
}

static struct result count_entry(void *context, const struct driver_entry *entry, struct error *err)
{
    (void)err;
    if (entry->is_extent) ++*(size_t *)context;
    else *(size_t *)context += 1000;
    return SUCCESS;
}

/* Extents, and a thousand for each checkpoint. */
static size_t count_objects(struct blob_test *test)
{
    struct error err = {0};
    size_t count = 0;

    assert_true(blob_list(test->store, count_entry, &count, &err).ok);
    return count;
}

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

/* A process died after it had stored a checkpoint, and before the row named it. */
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

static bool stop_at_four_records(void *context, uint64_t done_bytes, uint64_t length_bytes)
{
    (void)length_bytes;
    *(uint64_t *)context = done_bytes;
    return done_bytes < 4 * 65520;
}

static void a_check_can_be_stopped(void **state)
{
    OWNED(blob_writer) *writer = NULL;
    OWNED(blob_reader) *reader = NULL;
    struct blob_test test;
    struct blob_content content;
    struct error err = {0};
    uint64_t done = 0;
    const struct digest digest = blob_test_digest(DIGEST_SHA256, 5, 400000);

    (void)state;
    assert_true(blob_test_open(&test, DRIVER_MEMORY, &err));
    assert_true(blob_test_writer(&test, &writer, &err).ok);
    assert_true(blob_test_write(writer, 5, 400000, 5000, &err).ok);
    assert_true(blob_writer_close(writer, &digest, &content, &err).ok);
    assert_true(blob_reader_open(test.store, &test.upload.identity, &content, test.key, &reader, &err).ok);
    assert_false(blob_verify(reader, &(struct blob_verify_options){.progress = stop_at_four_records, .context = &done}, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_int_equal(done, 4 * 65520);
    done = 0; /* what was checked before is not read again */
    assert_true(
        blob_verify(reader,
                    &(struct blob_verify_options){.progress = stop_at_four_records, .context = &done, .from_bytes = 400000}, &err)
            .ok == false);
    assert_int_equal(done, 400000);
    blob_reader_free(GIVE(reader));
    blob_writer_free(GIVE(writer));
    blob_test_done(&test);
}

static void another_region_is_refused(void **state)
{
    struct blob_writer *writer = NULL;
    struct blob_reader *reader = NULL;
    struct blob_test test;
    const struct blob_content content = {0};
    struct error err = {0};

    (void)state;
    assert_true(blob_test_open(&test, DRIVER_MEMORY, &err));
    memcpy(test.upload.identity.region, "test/away", sizeof "test/away");
    assert_false(blob_test_writer(&test, &writer, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_false(blob_reader_open(test.store, &test.upload.identity, &content, test.key, &reader, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    blob_test_done(&test);
}

/* ---- Many threads, one store ---- */

struct worker {
    pthread_t thread;
    struct blob_test test; /* shares the store */
    uint64_t seed;
    bool is_sound;
};

static struct result work(struct worker *worker, struct error *err)
{
    OWNED(blob_writer) *writer = NULL;
    OWNED(blob_reader) *reader = NULL;
    struct blob_content content;
    struct digest digests[2];

    for (uint64_t until = 0; until <= 400000; until += 100000) {
        TRY(blob_test_writer(&worker->test, &writer, err));
        TRY(blob_test_write(writer, worker->seed, until, 30000, err));
        TRY(blob_test_checkpoint(&worker->test, writer, err));
        if (until < 400000) blob_writer_free(GIVE(writer));
    }
    (void)blob_writer_digests(writer, digests);
    TRY(blob_writer_close(writer, &digests[0], &content, err));
    TRY(blob_reader_open(worker->test.store, &worker->test.upload.identity, &content, worker->test.key, &reader, err));
    worker->is_sound = blob_test_reads(reader, worker->seed, 0, 400000, 100000, err);
    return blob_remove(worker->test.store, &worker->test.upload.identity.blob, err);
}

static void *run_worker(void *context)
{
    struct worker *worker = context;
    struct error err = {0};

    if (!work(worker, &err).ok) worker->is_sound = false;
    return NULL;
}

static void threads_share_a_store(void **state)
{
    static const enum blob_test_driver drivers[] = {DRIVER_FS, DRIVER_MEMORY, DRIVER_FLAT};
    struct blob_test test;
    struct worker workers[8]; /* four for each core of a small machine */
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(drivers); i++) {
        assert_true(blob_test_open(&test, drivers[i], &err));
        for (size_t j = 0; j < COUNT(workers); j++) {
            workers[j] = (struct worker){.test = test, .seed = j};
            workers[j].test.upload.identity = blob_identity_new(test.store, &test.upload.identity.project);
            assert_int_equal(pthread_create(&workers[j].thread, NULL, run_worker, &workers[j]), 0);
        }
        for (size_t j = 0; j < COUNT(workers); j++) {
            assert_int_equal(pthread_join(workers[j].thread, NULL), 0);
            assert_true(workers[j].is_sound);
        }
        assert_int_equal(count_objects(&test), 0);
        blob_test_done(&test);
    }
}

static long resident_kib(void)
{
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/* 256 MiB pass through writer and reader; the high-water mark of the process may not notice. */
static void memory_does_not_grow_with_the_size(void **state)
{
    static uint8_t block[131072];
    OWNED(blob_writer) *writer = NULL;
    OWNED(blob_reader) *reader = NULL;
    OWNED(hasher) *hasher = NULL;
    struct blob_test test;
    struct blob_content content;
    struct error err = {0};

    (void)state;
    assert_true(blob_test_open(&test, DRIVER_FS_ON_DISK, &err));
    assert_true(blob_test_writer(&test, &writer, &err).ok);
    assert_true(hasher_new(DIGEST_SHA256, &hasher, &err).ok);
    const long before = resident_kib();
    for (size_t i = 0; i < 256 * MIB / sizeof block; i++) {
        hasher_add(hasher, (struct bytes){block, sizeof block});
        assert_true(blob_writer_write(writer, (struct bytes){block, sizeof block}, &err).ok);
        if (blob_writer_is_checkpoint_due(writer)) assert_true(blob_test_checkpoint(&test, writer, &err).ok);
    }
    assert_int_equal(test.row.sequence, 4);
    const struct digest digest = hasher_digest(hasher);
    assert_true(blob_writer_close(writer, &digest, &content, &err).ok);
    assert_true(blob_reader_open(test.store, &test.upload.identity, &content, test.key, &reader, &err).ok);
    assert_true(blob_verify(reader, &(struct blob_verify_options){0}, &err).ok);
    assert_in_range(resident_kib() - before, 0, 8 << 10);
    blob_reader_free(GIVE(reader));
    blob_writer_free(GIVE(writer));
    blob_test_done(&test);
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
        cmocka_unit_test(a_check_can_be_stopped),
        cmocka_unit_test(another_region_is_refused),
        cmocka_unit_test(threads_share_a_store),
        cmocka_unit_test(memory_does_not_grow_with_the_size),
    };

    return cmocka_run_group_tests_name("others", others, NULL, NULL) + RUN_TABLE(round_rows, makes_a_round_trip);
}
