/* A region in a bucket: the faults that only a bucket has, and wrong options. */
#include "tests/integration/bucket_fixture.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/s3_peer.h"

/* ---- What a bucket and the way to it do wrong; from here on not with a real one ---- */

enum { LENGTH = 700000 };
static struct digest digest; /* of that content, computed before the first failure */
static struct blob_content closed;

/* Two PATCHes with a checkpoint between them, the second by another writer. */
static struct result upload(struct blob_test *test, struct error *err)
{
    OWNED(blob_writer) *first = NULL;
    OWNED(blob_writer) *second = NULL;

    if (test->row.offset < 300000) {
        TRY(blob_test_writer(test, &first, err));
        TRY(blob_test_write(first, 9, 300000, 50000, err));
        TRY(blob_test_checkpoint(test, first, err));
    }
    TRY(blob_test_writer(test, &second, err));
    TRY(blob_test_write(second, 9, LENGTH, 50000, err));
    TRY(blob_writer_close(second, &digest, &closed, err));
    blob_writer_committed(second);
    test->row = (struct blob_checkpoint){.offset = LENGTH};
    return SUCCESS;
}

static struct result upload_and_read(struct blob_test *test, struct error *err)
{
    OWNED(blob_reader) *reader = NULL;

    if (test->row.offset < LENGTH) TRY(upload(test, err));
    TRY_UNTOUCHED_BYTES(reader, blob_reader_open(test->store, &test->upload.identity, &closed, test->key, &reader, err));
    TRY(blob_verify(reader, &(struct blob_verify_options){.with_digest = true}, err));
    return SUCCESS;
}

static const struct trouble_row {
    const char *name, *how, *only;
    unsigned count;
    bool is_survived;
    enum error_kind kind; /* if it is not */
} trouble_rows[] = {
    {"slow down, three times", "503", "", 3, true, ERROR_NONE},
    {"too many requests, three times", "429", "", 3, true, ERROR_NONE},
    {"an inner error, three times", "500", "", 3, true, ERROR_NONE},
    {"done, and then an error", "after", "", 2, true, ERROR_NONE},
    {"connections are cut before", "cut", "", 3, true, ERROR_NONE},
    {"connections are cut after it was done", "cut-after", "", 2, true, ERROR_NONE},
    {"half an answer", "half", "GET", 2, true, ERROR_NONE},
    {"an upload that is not complete after all", "late", "POST", 1, true, ERROR_NONE},
    {"a balancer that lost its way, three times", "astray", "", 3, true, ERROR_NONE},
    {"slow down for ever", "503", "", 1000, false, ERROR_UNAVAILABLE},
    {"cut for ever", "cut", "", 1000, false, ERROR_UNAVAILABLE},
    {"a balancer that lost its way for ever", "astray", "", 1000, false, ERROR_UNAVAILABLE},
    {"refused", "403", "", 1000, false, ERROR_UNAVAILABLE},
    {"elsewhere", "301", "", 1000, false, ERROR_UNAVAILABLE},
    {"full", "507", "PUT", 1000, false, ERROR_FULL},
    {"no XML", "garbage", "POST", 1000, false, ERROR_UNAVAILABLE},
    {"other bytes", "garbage", "GET", 1000, false, ERROR_UNAVAILABLE},
};

/* script/soak places tries each place; here these are samples. */
static bool tries_all(void)
{
    return getenv("SIJIL_FAULTS_ALL") != NULL;
}

/* The trouble begins at each request in turn; a failed upload can go on when the trouble is over. */
static void trouble_is_survived_or_said(void **state)
{
    const struct trouble_row *row = *state;

    for (unsigned skip = 0; skip < 24; skip += tries_all() ? 1 : row->is_survived ? 3 : 7) {
        struct blob_test test;
        struct error err = {0};
        open_test(&test);
        s3_peer_plan(&peer, row->how, row->only, skip, row->count);
        const struct result result = upload_and_read(&test, &err);
        s3_peer_heal(&peer);
        if (row->is_survived) must(result, &err);
        if (!result.ok) {
            /* a "garbage" checkpoint is a damaged one, until it is read again */
            const bool may_be_damaged = strcmp(row->how, "garbage") == 0;
            if (err.kind != row->kind && !(may_be_damaged && err.kind == ERROR_CORRUPT))
                fail_msg("skip %u: %s: %s", skip, error_kind_name(err.kind), err.message);
            must(upload_and_read(&test, &err), &err);
        }
        must(blob_remove(test.store, &test.upload.identity.blob, &err), &err);
        blob_test_done(&test);
        assert_int_equal(s3_peer_rows(&peer), 0);
    }
}

static void a_refusal_is_not_tried_again(void **state)
{
    struct blob_test test;
    struct error err = {0};

    (void)state;
    open_test(&test);
    s3_peer_plan(&peer, "403", "", 0, 1);
    assert_false(upload_and_read(&test, &err).ok);
    assert_non_null(strstr(err.message, "403 AccessDenied"));
    must(upload_and_read(&test, &err), &err);
    must(blob_remove(test.store, &test.upload.identity.blob, &err), &err);
    blob_test_done(&test);
    s3_peer_heal(&peer);
}

static void a_silent_peer_is_given_up(void **state)
{
    struct driver_s3_options options = peer.options;
    struct driver *driver = NULL;
    struct error err = {0};

    (void)state;
    options.s3.silence_s = 1;
    options.s3.tries_max = 1;
    must(driver_s3_open(&options, &driver, &err), &err);
    s3_peer_plan(&peer, "silent", "", 0, 1);
    assert_false(driver->operations->check(driver, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    s3_peer_heal(&peer);
    must(driver->operations->check(driver, &err), &err);
    driver_free(driver);
}

static void a_bucket_elsewhere_is_not_used(void **state)
{
    const struct uuid blob = uuid_random();
    OWNED(driver) *driver = s3_peer_driver(&peer);
    struct buffer content = BUFFER(10);
    struct error err = {0};

    (void)state;
    must(driver->operations->small_put(driver, &blob, "c1", bytes_of_text("bytes"), &err), &err);
    s3_peer_move(&peer, "eu-west-1");
    assert_false(driver->operations->check(driver, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_string_equal(err.message,
                        "region test/here may be in me-test-1 alone (bucket_location), but bucket models is in eu-west-1: "
                        "nothing is read or written there");
    assert_false(driver->operations->small_get(driver, &blob, "c1", &content, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "bucket_location"));
    OWNED(driver) *fresh = s3_peer_driver(&peer);
    const unsigned puts = s3_peer_requests(&peer, "PUT ");
    assert_false(
        fresh->operations->small_put(fresh, &blob, "c2", bytes_of_text("bytes"), &err).ok); /* asks before its first use */
    assert_non_null(strstr(err.message, "eu-west-1"));
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_int_equal(s3_peer_requests(&peer, "PUT "), puts);
    s3_peer_heal(&peer);
    must(driver->operations->check(driver, &err), &err);
    must(driver->operations->small_get(driver, &blob, "c1", &content, &err), &err);
    must(driver->operations->remove(driver, &blob, NULL, 0, &err), &err);
    buffer_done(&content);
}

static const struct option_row {
    const char *name, *endpoint, *bucket, *location, *prefix;
} option_rows[] = {
    {"plain HTTP", "http://127.0.0.1", "models", "x", ""},
    {"no host", "https://", "models", "x", ""},
    {"a path", "https://s3/models", "models", "x", ""},
    {"a user", "https://me@s3", "models", "x", ""},
    {"a bucket in capitals", "https://s3", "Models", "x", ""},
    {"a bucket with a path", "https://s3", "mod/els", "x", ""},
    {"a short bucket", "https://s3", "m", "x", ""},
    {"dots in a bucket", "https://s3", "mod..els", "x", ""},
    {"no location", "https://s3", "models", "", ""},
    {"a location with a line", "https://s3", "models", "x\ny", ""},
    {"a prefix without its end", "https://s3", "models", "x", "a"},
    {"a prefix from the root", "https://s3", "models", "x", "/a/"},
    {"dots in a prefix", "https://s3", "models", "x", "../"},
};

static void wrong_options_are_refused(void **state)
{
    const struct option_row *row = *state;
    struct driver_s3_options options = peer.options;
    struct driver *driver = NULL;
    struct error err = {0};

    options.s3.endpoint = row->endpoint;
    options.s3.bucket = row->bucket;
    options.s3.location = row->location;
    options.prefix = row->prefix;
    assert_false(driver_s3_open(&options, &driver, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_null(driver);
}

static void a_key_that_others_may_read_is_refused(void **state)
{
    struct driver *driver = NULL;
    struct error err = {0};

    (void)state;
    assert_int_equal(chmod(peer.key_file, 0644), 0);
    assert_false(driver_s3_open(&peer.options, &driver, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_int_equal(chmod(peer.key_file, 0640), 0); /* a group of the service is usual */
    must(driver_s3_open(&peer.options, &driver, &err), &err);
    driver_free(driver);
    assert_int_equal(chmod(peer.key_file, 0600), 0);
}

static void write_key(const char *text)
{
    FILE *file = fopen(peer.key_file, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void a_key_may_be_replaced(void **state)
{
    OWNED(driver) *driver = NULL;
    char right[256] = "";
    struct error err = {0};

    (void)state;
    FILE *file = fopen(peer.key_file, "re");
    assert_non_null(file);
    assert_true(fread(right, 1, sizeof right - 1, file) > 0);
    (void)fclose(file);
    write_key("TESTKEY\nnot the secret\n");
    assert_false(driver_s3_open(&peer.options, &driver, &err).ok); /* no word */
    write_key("TESTKEY\nsome-other-secret\n");
    must(driver_s3_open(&peer.options, &driver, &err), &err);
    assert_false(driver->operations->check(driver, &err).ok);
    assert_non_null(strstr(err.message, "InvalidAccessKeyId"));
    assert_null(strstr(err.message, "some-other-secret"));
    write_key(right);
    must(driver->operations->check(driver, &err), &err);
}

static void a_peer_that_nobody_vouches_for_is_not_called(void **state)
{
    struct driver_s3_options options = peer.options;
    OWNED(driver) *driver = NULL;
    struct error err = {0};

    (void)state;
    options.s3.ca_file = "";
    must(driver_s3_open(&options, &driver, &err), &err);
    const unsigned requests = s3_peer_requests(&peer, "");
    assert_false(driver->operations->check(driver, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "certificate"));
    assert_int_equal(s3_peer_requests(&peer, ""), requests);
}

/* The networks are obeyed: a store in them is called, and no byte is sent to another one. */
static void only_allowed_networks_are_called(void **state)
{
    static const struct {
        const char *endpoint, *networks;
        bool is_called;
    } rows[] = {{"https://169.254.169.254", "", false}, {NULL, "10.0.0.0/8, ::1/128", false}, {NULL, "127.0.0.0/8", true}};
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct driver_s3_options options = peer.options;
        OWNED(driver) *driver = NULL;
        if (rows[i].endpoint != NULL) options.s3.endpoint = rows[i].endpoint;
        options.s3.networks = rows[i].networks;
        options.s3.tries_max = 1;
        must(driver_s3_open(&options, &driver, &err), &err);
        const unsigned requests = s3_peer_requests(&peer, "");
        assert_int_equal(driver->operations->check(driver, &err).ok, rows[i].is_called);
        if (!rows[i].is_called) assert_int_equal(err.kind, ERROR_UNAVAILABLE);
        assert_int_equal(s3_peer_requests(&peer, "") > requests, rows[i].is_called);
    }
}

/* ---- Everything that can fail here ---- */

static void every_failure_leaves_the_upload_resumable(void **state)
{
    unsigned long nth = 1, step = tries_all() ? 1 : 54;

    (void)state;
    for (bool has_fired = true; has_fired; nth += step) {
        struct blob_test test;
        struct error err = {0};
        open_test(&test);
        fault_arm(nth);
        const struct result result = upload_and_read(&test, &err);
        has_fired = fault_has_fired();
        fault_arm(0);
        if (!result.ok) {
            assert_true(has_fired);
            if (err.kind != ERROR_UNAVAILABLE && err.kind != ERROR_NO_MEMORY)
                fail_msg("failure %lu: %s: %s", nth, error_kind_name(err.kind), err.message);
            must(upload_and_read(&test, &err), &err);
        }
        must(blob_remove(test.store, &test.upload.identity.blob, &err), &err);
        blob_test_done(&test);
    }
    assert_failures(nth - 2 * step, 800);
}

static struct result open_any(void *context, struct error *err)
{
    OWNED(driver) *driver = NULL;

    (void)context;
    TRY_UNTOUCHED_BYTES(driver, driver_s3_open(&peer.options, &driver, err));
    return SUCCESS;
}

static void opening_may_fail_anywhere(void **state)
{
    (void)state;
    fail_each(open_any, NULL, ERROR_NONE, 5);
}

static void the_database_may_be_lost(void **state)
{
    struct blob_test test;
    struct error err = {0};

    (void)state;
    open_test(&test);
    must(upload_and_read(&test, &err), &err);
    must(blob_remove(test.store, &test.upload.identity.blob, &err), &err);
    database_disconnect_all(peer.database);
    test.upload.identity.blob = uuid_random();
    test.row = (struct blob_checkpoint){0};
    must(upload_and_read(&test, &err), &err); /* new connections */
    must(blob_remove(test.store, &test.upload.identity.blob, &err), &err);
    blob_test_done(&test);
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(a_refusal_is_not_tried_again),
        cmocka_unit_test(a_silent_peer_is_given_up),
        cmocka_unit_test(a_bucket_elsewhere_is_not_used),
        cmocka_unit_test(a_key_that_others_may_read_is_refused),
        cmocka_unit_test(a_key_may_be_replaced),
        cmocka_unit_test(a_peer_that_nobody_vouches_for_is_not_called),
        cmocka_unit_test(only_allowed_networks_are_called),
        cmocka_unit_test(every_failure_leaves_the_upload_resumable),
        cmocka_unit_test(opening_may_fail_anywhere),
        cmocka_unit_test(the_database_may_be_lost),
        cmocka_unit_test(nothing_was_left_behind),
    };

    digest = blob_test_digest(DIGEST_SHA256, 9, LENGTH);
    s3_peer_start(&peer);
    const int failed = RUN_TABLE(trouble_rows, trouble_is_survived_or_said) + RUN_TABLE(option_rows, wrong_options_are_refused) +
                       cmocka_run_group_tests(own, NULL, NULL);
    s3_peer_stop(&peer);
    return failed;
}
