/* Sealed blobs without faults. */
#include "tests/unit/blob_fixture.h"

#include <pthread.h>
#include <sys/resource.h>

#include "tests/support/blob.h"

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
        content.digest = digest; /* it is readable under each digest */
        check_blob(&test, &content, 7);
    }
    blob_writer_committed(writer);
    blob_writer_free(GIVE(writer));
    blob_test_done(&test);
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
        cmocka_unit_test(a_check_can_be_stopped),
        cmocka_unit_test(another_region_is_refused),
        cmocka_unit_test(threads_share_a_store),
        cmocka_unit_test(memory_does_not_grow_with_the_size),
    };

    return cmocka_run_group_tests_name("others", others, NULL, NULL) + RUN_TABLE(round_rows, makes_a_round_trip);
}
