/* Buckets that are not reachable while many calls need them, that list foreign objects, or that get many parts. */
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

/* Every caller waited, so in the end all threads of a gateway waited, also those that tags and manifests needed. */
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
    (void)ask(driver); /* from now on the driver knows that the store does not answer */
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

/* A store that does not know the argument `prefix` answers with all keys of the bucket. */
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

/* Parts are small at first, because the blob may be small. After a hundred parts the next ones have twice the size. */
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

/* ---- A writer that was overtaken by another process, which made its extent whole, and wakes up ---- */

enum { FIRST = 50000, PART = 100000 };

static void append(struct driver *driver, struct driver_extent *extent, uint64_t from, size_t length)
{
    static uint8_t content[2 * PART];
    struct error err = {0};

    blob_test_fill(9, from, content, length);
    if (!driver->operations->extent_append(extent, (struct bytes){content, length}, &err).ok) fail_msg("%s", err.message);
}

static struct driver_extent *begin(struct driver *driver, const struct uuid *blob)
{
    const struct driver_history nothing = {0};
    struct driver_extent *extent = NULL;
    struct error err = {0};

    if (!driver->operations->extent_create(driver, blob, &nothing, &extent, &err).ok) fail_msg("%s", err.message);
    return extent;
}

static void sync_it(struct driver *driver, struct driver_extent *extent)
{
    struct error err = {0};

    if (!driver->operations->extent_sync(extent, &err).ok) fail_msg("%s", err.message);
}

/* The other writer read the list before this writer's part was in it, and removed the part with the rest. */
static void parts_that_were_forgotten_are_not_completed_without(void **state)
{
    const struct uuid blob = uuid_random();
    OWNED(driver) *driver = s3_peer_driver(&peer);
    unsigned objects = 0, uploads = 0, objects_now = 0;
    struct error err = {0};

    (void)state;
    s3_peer_left(&peer, &objects, &uploads);
    struct driver_extent *extent = begin(driver, &blob);
    append(driver, extent, 0, PART);
    sync_it(driver, extent);
    database_execute(peer.database, "DELETE FROM multipart; DELETE FROM multipart_piece");
    append(driver, extent, PART, PART);
    assert_false(driver->operations->extent_finish(extent, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    s3_peer_left(&peer, &objects_now, &uploads);
    assert_int_equal(objects_now, objects);
    driver->operations->extent_discard(extent);
}

/* ---- What a bucket says about itself ---- */

static void survey(struct driver *driver, struct driver_survey *survey_out)
{
    struct error err = {0};

    if (!driver->operations->survey(driver, survey_out, &err).ok) fail_msg("%s", err.message);
}

static void a_bucket_says_what_it_is(void **state)
{
    OWNED(driver) *driver = s3_peer_driver(&peer);
    struct driver_survey found;
    struct error err = {0};

    (void)state;
    s3_peer_heal(&peer);
    survey(driver, &found);
    assert_string_equal(found.mark, "");
    assert_string_equal(found.place, "me-test-1");
    assert_true(found.copies.told == RULES_NONE && found.expiry.told == RULES_NONE && found.versions.told == RULES_NONE);
    assert_true(driver->operations->mark(driver, "00112233445566778899aabbccddeeff", &err).ok);
    assert_false(driver->operations->mark(driver, "ffffffffffffffffffffffffffffffff", &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    s3_peer_say(&peer, "{\"versioning\":\"<Status>Enabled</Status>\",\"lifecycle\":501,\"replication\":403}");
    survey(driver, &found);
    assert_string_equal(found.mark, "00112233445566778899aabbccddeeff");
    assert_int_equal(found.versions.told, RULES_SOME);
    assert_int_equal(found.expiry.told, RULES_NOT_TOLD);
    assert_string_equal(found.copies.what, "403 AccessDenied");
    s3_peer_move(&peer, "elsewhere-1"); /* it is asked although nothing is read or written there */
    survey(driver, &found);
    assert_string_equal(found.place, "elsewhere-1");
    s3_peer_plan(&peer, "500", "GET", 1, 100);
    assert_false(driver->operations->survey(driver, &found, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    s3_peer_heal(&peer);
}

struct taking_over {
    struct driver *driver;
    struct driver_history history;
    struct driver_extent *extent;
    const struct uuid *blob;
    struct result result;
    struct error err;
};

static void *take_over(void *context)
{
    struct taking_over *taking = context;

    taking->result =
        taking->driver->operations->extent_create(taking->driver, taking->blob, &taking->history, &taking->extent, &taking->err);
    return NULL;
}

/* It wakes up while the other writer completes the extent: its bytes must not replace the complete extent. */
static void one_that_goes_on_meanwhile_does_not_replace_what_is_whole(void **state)
{
    const struct uuid blob = uuid_random();
    struct driver_s3_options options = peer.options;
    OWNED(driver) *driver = s3_peer_driver(&peer);
    OWNED(driver) *another = NULL;
    struct driver_part *part = NULL;
    uint8_t got[FIRST], expected[FIRST];
    pthread_t thread;
    struct error err = {0};

    (void)state;
    options.s3.silence_s = 2;
    assert_true(driver_s3_open(&options, &another, &err).ok);
    struct driver_extent *extent = begin(driver, &blob);
    const struct driver_piece piece = {0, driver->operations->extent_part(extent)};
    append(driver, extent, 0, FIRST);
    sync_it(driver, extent);
    const unsigned silent = s3_peer_requests(&peer, "SILENT");
    s3_peer_plan(&peer, "silent", "PUT", 0, 1);
    struct taking_over taking = {.driver = another, .history = {&piece, 1, FIRST, 0}, .blob = &blob};
    assert_int_equal(pthread_create(&thread, NULL, take_over, &taking), 0);
    while (s3_peer_requests(&peer, "SILENT") == silent) (void)usleep(20000); /* it has read the list, and puts what it found */
    append(driver, extent, FIRST, FIRST);
    sync_it(driver, extent);
    append(driver, extent, 2 * FIRST, PART);
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (!taking.result.ok) fail_msg("%s", taking.err.message);
    assert_false(driver->operations->extent_finish(extent, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    driver->operations->extent_close(extent);

    if (!driver->operations->part_open(driver, &blob, piece.part, &part, &err).ok) fail_msg("%s", err.message);
    assert_int_equal(driver->operations->part_size(part), FIRST);
    assert_true(driver->operations->part_read(part, 0, got, FIRST, &err).ok);
    blob_test_fill(9, 0, expected, FIRST);
    assert_memory_equal(got, expected, FIRST);
    driver->operations->part_close(part);
    another->operations->extent_discard(taking.extent);
    s3_peer_heal(&peer);
    assert_true(driver->operations->remove(driver, &blob, NULL, 0, &err).ok);
    assert_int_equal(s3_peer_rows(&peer), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(few_wait_for_a_peer_that_is_away),
                                       cmocka_unit_test(what_was_not_asked_for_is_not_removed),
                                       cmocka_unit_test(parts_grow),
                                       cmocka_unit_test(parts_that_were_forgotten_are_not_completed_without),
                                       cmocka_unit_test(one_that_goes_on_meanwhile_does_not_replace_what_is_whole),
                                       cmocka_unit_test(a_bucket_says_what_it_is)};

    s3_peer_start(&peer);
    const int failed = cmocka_run_group_tests_name("odd buckets", tests, NULL, NULL);
    s3_peer_stop(&peer);
    return failed;
}
