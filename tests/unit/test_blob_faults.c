/* Uploads whose disk or memory fails at every single place, or is full: they resume, and have the right content. */
#include "tests/support/unit.h"

#include <sched.h>
#include <sys/mount.h>

#include "base/fault.h"
#include "tests/support/blob.h"

/* ---- The n-th failure ---- */

#define FAULT_LENGTH 700000        /* three appends after the checkpoint */
static struct digest fault_digest; /* computed before the first failure */

static struct result checkpoint(struct blob_test *test, struct blob_writer *writer, struct error *err)
{
    struct blob_checkpoint made;

    TRY_UNTOUCHED_BYTES(made, blob_writer_checkpoint(writer, &made, err));
    test->row = made;
    blob_writer_committed(writer);
    return SUCCESS;
}

/* The steps of an upload: two PATCHes with a checkpoint between them, and the closing PUT. */
static struct result upload(struct blob_test *test, bool *is_closed_out, struct blob_content *content_out, struct error *err)
{
    OWNED(blob_writer) *writer = NULL;

    TRY_UNTOUCHED_BYTES(writer, blob_test_writer(test, &writer, err));
    if (blob_writer_offset(writer) < 100000) {
        TRY(blob_test_write(writer, 9, 100000, 30000, err));
        TRY(checkpoint(test, writer, err));
    }
    TRY(blob_test_write(writer, 9, FAULT_LENGTH, 30000, err));
    TRY_UNTOUCHED_BYTES(*content_out, blob_writer_close(writer, &fault_digest, content_out, err));
    blob_writer_committed(writer);
    *is_closed_out = true;
    return SUCCESS;
}

static struct result read_back(struct blob_test *test, const struct blob_content *content, struct error *err)
{
    OWNED(blob_reader) *reader = NULL;
    static uint8_t got[FAULT_LENGTH], expected[FAULT_LENGTH];

    TRY_UNTOUCHED_BYTES(reader, blob_reader_open(test->store, &test->upload.identity, content, test->key, &reader, err));
    blob_test_fill(9, 0, expected, FAULT_LENGTH);
    memset(got, 0xee, sizeof got);
    const struct result result = blob_reader_read(reader, 0, got, FAULT_LENGTH, err);
    if (result.ok) {
        assert_memory_equal(got, expected, FAULT_LENGTH);
    } else {
        memset(expected, 0, sizeof expected);
        assert_memory_equal(got, expected, FAULT_LENGTH); /* no bytes of a failed read stay */
    }
    return result;
}

static void every_failure_leaves_the_upload_resumable(void **state)
{
    static const enum blob_test_driver drivers[] = {DRIVER_FS, DRIVER_FS_PAST_CACHE, DRIVER_MEMORY, DRIVER_FLAT};

    (void)state;
    for (size_t i = 0; i < COUNT(drivers); i++) {
        unsigned long nth = 1;
        for (bool has_fired = true; has_fired; nth++) {
            struct blob_test test;
            struct blob_content content;
            struct error err = {0};
            bool is_closed = false;

            assert_true(blob_test_open(&test, drivers[i], &err));
            fault_arm(nth);
            const struct result result = upload(&test, &is_closed, &content, &err);
            has_fired = fault_has_fired();
            fault_arm(0);
            if (!result.ok) {
                assert_true(has_fired && !is_closed);
                assert_true(err.kind == ERROR_UNAVAILABLE || err.kind == ERROR_NO_MEMORY);
                must(upload(&test, &is_closed, &content, &err), &err);
            }
            must(read_back(&test, &content, &err), &err);
            blob_test_done(&test);
        }
        assert_failures(nth - 2, 40);
    }
}

struct closed {
    struct blob_test test;
    struct blob_content content;
};

static struct result read_closed(void *context, struct error *err)
{
    struct closed *closed = context;

    return read_back(&closed->test, &closed->content, err);
}

static void every_failure_of_a_reader_is_reported(void **state)
{
    struct closed closed;
    struct error err = {0};
    bool is_closed = false;

    (void)state;
    assert_true(blob_test_open(&closed.test, DRIVER_FS, &err));
    must(upload(&closed.test, &is_closed, &closed.content, &err), &err);
    fail_each(read_closed, &closed, ERROR_NONE, 18);
    blob_test_done(&closed.test);
}

/* A failed direct read is not an error if the bytes can be read in the ordinary way. */
static void every_failure_past_the_page_cache_is_mended_or_reported(void **state)
{
    static const enum blob_test_driver drivers[] = {DRIVER_FS_ON_DISK, DRIVER_DISK_PAST_CACHE};
    unsigned long points[COUNT(drivers)] = {0};
    size_t mended = 0;

    (void)state;
    for (size_t i = 0; i < COUNT(drivers); i++) {
        struct blob_test test;
        struct blob_content content;
        struct error err = {0};
        bool is_closed = false;
        assert_true(blob_test_open(&test, drivers[i], &err));
        must(upload(&test, &is_closed, &content, &err), &err);
        for (bool has_fired = true; has_fired;) {
            fault_arm(++points[i]);
            const struct result result = read_back(&test, &content, &err);
            has_fired = fault_has_fired();
            fault_arm(0);
            assert_true(result.ok || (has_fired && (err.kind == ERROR_UNAVAILABLE || err.kind == ERROR_NO_MEMORY)));
            mended += result.ok && has_fired;
        }
        blob_test_done(&test);
    }
    assert_failures(points[0] - 1, 18);
    assert_true(points[1] > points[0] && mended > 0);
}

static struct result count_files(void *context, struct error *err)
{
    size_t count = 0;

    TRY(blob_list(((struct blob_test *)context)->store, blob_test_count_entry, &count, err));
    assert_int_equal(count, 1);
    return SUCCESS;
}

/* If a folder can't be read to its end, the removal fails: after a success all objects are removed. */
static void what_is_said_to_be_removed_is_gone(void **state)
{
    struct blob_test test;
    struct blob_content content;
    struct error err = {0};

    unsigned long nth = 1;

    (void)state;
    for (bool has_fired = true; has_fired; nth++) {
        bool is_closed = false;
        size_t count = 0;

        assert_true(blob_test_open(&test, DRIVER_FS, &err));
        must(upload(&test, &is_closed, &content, &err), &err);
        if (nth == 1) fail_each(count_files, &test, ERROR_UNAVAILABLE, 256);
        fault_arm(nth);
        const bool ok = blob_remove(test.store, &test.upload.identity.blob, &err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        assert_int_equal(ok, !has_fired);
        if (!ok) must(blob_remove(test.store, &test.upload.identity.blob, &err), &err);
        must(blob_list(test.store, blob_test_count_entry, &count, &err), &err);
        assert_int_equal(count, 0);
        blob_test_done(&test);
    }
    assert_failures(nth - 2, 8);
}

static struct result open_folder(void *path, struct error *err)
{
    OWNED(driver) *driver = NULL;

    TRY_UNTOUCHED_BYTES(driver, driver_fs_open(path, 0, &driver, err));
    return SUCCESS;
}

static struct result open_memory(void *context, struct error *err)
{
    OWNED(driver) *driver = NULL;

    (void)context;
    TRY_UNTOUCHED_BYTES(driver, driver_memory_open(NULL, &driver, err));
    return SUCCESS;
}

static void opening_may_fail_anywhere(void **state)
{
    struct blob_test_folder folder = blob_test_folder_new(false);

    (void)state;
    fail_each(open_folder, folder.path, ERROR_NONE, 256);
    fail_each(open_memory, NULL, ERROR_NO_MEMORY, 1);
    blob_test_folder_done(&folder);
}

/* ---- No room ---- */

static void a_full_store_takes_the_upload_up_again(void **state)
{
    OWNED(blob_writer) *writer = NULL;
    struct blob_test test;
    struct blob_content content;
    struct error err = {0};
    bool is_closed = false;

    (void)state;
    assert_true(blob_test_open(&test, DRIVER_MEMORY, &err));
    driver_memory_set_capacity(test.driver, 120000);
    must(blob_test_writer(&test, &writer, &err), &err);
    must(blob_test_write(writer, 9, 60000, 30000, &err), &err);
    must(blob_test_checkpoint(&test, writer, &err), &err);
    must(blob_test_write(writer, 9, 120000, 30000, &err), &err); /* a record that waits for a second one */
    assert_false(blob_test_checkpoint(&test, writer, &err).ok);
    assert_int_equal(err.kind, ERROR_FULL);
    assert_false(blob_writer_write(writer, bytes_of_text("x"), &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    blob_writer_free(GIVE(writer));
    assert_false(upload(&test, &is_closed, &content, &err).ok);
    assert_int_equal(err.kind, ERROR_FULL);

    driver_memory_set_capacity(test.driver, 0);
    must(upload(&test, &is_closed, &content, &err), &err);
    must(read_back(&test, &content, &err), &err);
    blob_test_done(&test);
}

/* A real file system of 3 MiB, in a mount namespace of our own; only root may make one. */
static bool mount_small(const struct blob_test_folder *folder)
{
    return geteuid() == 0 && unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", folder->path, "tmpfs", 0, "size=3m") == 0;
}

static void fill_disk(const char *path)
{
    static uint8_t ballast[1 << 20];
    const int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

    while (write(file, ballast, sizeof ballast) > 0) continue;
    assert_int_equal(ftruncate(file, lseek(file, 0, SEEK_END) - 150000), 0);
    close(file);
}

/* 0: direct I/O, if the kernel has that for file systems in memory (from Linux 6.6 on). */
static void a_full_disk_takes_the_upload_up_again(void **state)
{
    static const uint64_t cached_max[] = {UINT64_MAX, 0};
    const struct blob_test_folder folder = blob_test_folder_new(false);
    struct blob_test test;
    struct blob_content content;
    struct error err = {0};
    char path[80];

    (void)state;
    if (!mount_small(&folder)) {
        blob_test_folder_done(&folder);
        skip();
    }
    for (size_t i = 0; i < COUNT(cached_max); i++) {
        bool is_closed = false;
        assert_true(blob_test_open(&test, DRIVER_MEMORY, &err));
        blob_store_free(test.store);
        (void)snprintf(path, sizeof path, "%s/region%zu", folder.path, i);
        assert_true(driver_fs_open(path, cached_max[i], &test.driver, &err).ok);
        assert_true(blob_store_new(test.driver, TEST_REGION, NULL, &test.store, &err).ok);

        (void)snprintf(path, sizeof path, "%s/ballast", folder.path);
        fill_disk(path);
        assert_false(upload(&test, &is_closed, &content, &err).ok);
        assert_int_equal(err.kind, ERROR_FULL);
        assert_int_equal(unlink(path), 0);
        must(upload(&test, &is_closed, &content, &err), &err);
        must(read_back(&test, &content, &err), &err);
        blob_test_done(&test);
    }
    assert_int_equal(umount(folder.path), 0);
    blob_test_folder_done(&folder);
}

/* A slow disk only takes longer. */
static void delays_change_nothing(void **state)
{
    const struct driver_memory_options slow = {.delay_ms = 2};
    struct blob_test test;
    struct blob_content content;
    struct error err = {0};
    bool is_closed = false;

    (void)state;
    assert_true(blob_test_open(&test, DRIVER_MEMORY, &err));
    blob_store_free(test.store);
    assert_true(driver_memory_open(&slow, &test.driver, &err).ok);
    assert_true(blob_store_new(test.driver, TEST_REGION, NULL, &test.store, &err).ok);
    must(upload(&test, &is_closed, &content, &err), &err);
    must(read_back(&test, &content, &err), &err);
    blob_test_done(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failure_leaves_the_upload_resumable),
        cmocka_unit_test(every_failure_of_a_reader_is_reported),
        cmocka_unit_test(every_failure_past_the_page_cache_is_mended_or_reported),
        cmocka_unit_test(what_is_said_to_be_removed_is_gone),
        cmocka_unit_test(opening_may_fail_anywhere),
        cmocka_unit_test(a_full_store_takes_the_upload_up_again),
        cmocka_unit_test(a_full_disk_takes_the_upload_up_again),
        cmocka_unit_test(delays_change_nothing),
    };

    fault_digest = blob_test_digest(DIGEST_SHA256, 9, FAULT_LENGTH);
    return cmocka_run_group_tests_name("blob faults", tests, NULL, NULL);
}
