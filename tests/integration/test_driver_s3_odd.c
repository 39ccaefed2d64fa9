/* Buckets that are away while many want something of them, or that list what was not asked for. */
#include "tests/support/unit.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(few_wait_for_a_peer_that_is_away),
                                       cmocka_unit_test(what_was_not_asked_for_is_not_removed)};

    s3_peer_start(&peer);
    const int failed = cmocka_run_group_tests_name("odd buckets", tests, NULL, NULL);
    s3_peer_stop(&peer);
    return failed;
}
