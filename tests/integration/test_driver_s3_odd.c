/* Buckets that are away while many want something of them, that list what was not asked for, or that are sent much. */
#include "tests/support/unit.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/support/blob.h"
#include "tests/support/s3_peer.h"

static struct s3_peer peer;

static void *ask(void *context)
{
    struct driver *driver = context;
    struct error ignored = {0};

    (void)driver->operations->check(driver, &ignored).ok;
    return NULL;
}

/* Whoever asked waited: in the end every thread of a gateway did, also those that tags and manifests needed. */
static void few_wait_for_a_peer_that_is_away(void **state)
{
    struct driver_s3_options options = peer.options;
    pthread_t waiting[3];
    struct driver *driver = NULL;
    struct error err = {0};

    (void)state;
    options.s3.silence_s = 4;
    options.s3.tries_max = 1;
    if (!driver_s3_open(&options, &driver, &err).ok) fail_msg("%s", err.message);
    s3_peer_plan(&peer, "silent", "", 0, 1 + COUNT(waiting));
    (void)ask(driver); /* from now on it is known */
    for (size_t i = 0; i < COUNT(waiting); i++) assert_int_equal(pthread_create(&waiting[i], NULL, ask, driver), 0);
    while (s3_peer_requests(&peer, "SILENT") < 1 + COUNT(waiting)) (void)usleep(20000);
    const int64_t asked_ms = clock_monotonic_ms();
    assert_false(driver->operations->check(driver, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "wait for it already"));
    assert_true(clock_monotonic_ms() - asked_ms < 2500); /* they wait for four seconds */
    for (size_t i = 0; i < COUNT(waiting); i++) assert_int_equal(pthread_join(waiting[i], NULL), 0);
    s3_peer_heal(&peer);
    if (!driver->operations->check(driver, &err).ok) fail_msg("%s", err.message);
    driver_free(driver);
}

/* One that does not know the argument `prefix` answers with all keys of the bucket. */
static void what_was_not_asked_for_is_not_removed(void **state)
{
    const struct uuid removed = uuid_random(), other = uuid_random();
    OWNED(driver) *driver = s3_peer_driver(&peer);
    const struct driver_operations *operations = driver->operations;
    struct buffer OWNED_BUFFER content = BUFFER(100);
    struct error err = {0};

    (void)state;
    assert_true(operations->small_put(driver, &removed, "upload", bytes_of_text("one"), &err).ok);
    assert_true(operations->small_put(driver, &other, "upload", bytes_of_text("another"), &err).ok);
    s3_peer_plan(&peer, "careless", "GET", 0, 100);
    assert_true(operations->remove(driver, &removed, NULL, 0, &err).ok);
    s3_peer_heal(&peer);
    assert_false(operations->small_get(driver, &removed, "upload", &content, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    assert_true(operations->small_get(driver, &other, "upload", &content, &err).ok);
    assert_true(operations->remove(driver, &other, NULL, 0, &err).ok);
}

/* Parts are small while a blob may be small. After a hundred of them, those that follow have twice their size. */
static void parts_grow(void **state)
{
    enum { PARTS = 110, SIZE = 100000, CONTENT = 100 * SIZE + (PARTS - 100) * 2 * SIZE - SIZE };
    const struct digest expected = blob_test_digest(DIGEST_SHA256, 8, CONTENT);
    struct driver_s3_options options = peer.options;
    struct driver *driver = NULL;
    OWNED(blob_writer) *writer = NULL;
    OWNED(blob_reader) *reader = NULL;
    struct blob_test test = {.kind = DRIVER_S3};
    struct blob_content content;
    struct error err = {0};

    (void)state;
    options.segment_bytes = 40 << 20;
    assert_true(driver_s3_open(&options, &driver, &err).ok);
    assert_true(blob_test_use(&test, driver, &err));
    const unsigned before = s3_peer_requests(&peer, "PUT ");
    assert_true(blob_test_writer(&test, &writer, &err).ok);
    assert_true(blob_test_write(writer, 8, CONTENT, 131072, &err).ok);
    assert_true(blob_writer_close(writer, &expected, &content, &err).ok);
    blob_writer_committed(writer);
    assert_int_equal(s3_peer_requests(&peer, "PUT ") - before, PARTS);
    assert_true(blob_reader_open(test.store, &test.upload.identity, &content, test.key, &reader, &err).ok);
    assert_true(blob_test_reads(reader, 8, 0, content.length, 256 << 10, &err));
    blob_reader_free(GIVE(reader));
    assert_true(blob_remove(test.store, &test.upload.identity.blob, &err).ok);
    blob_writer_free(GIVE(writer));
    blob_test_done(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(few_wait_for_a_peer_that_is_away),
                                       cmocka_unit_test(what_was_not_asked_for_is_not_removed),
                                       cmocka_unit_test(parts_grow)};

    s3_peer_start(&peer);
    const int failed = cmocka_run_group_tests_name("odd buckets", tests, NULL, NULL);
    s3_peer_stop(&peer);
    return failed;
}
