/* A region in a bucket: the contract of every driver. */
#include "tests/integration/bucket_fixture.h"

#include "tests/support/blob_schedule.h"
#include "tests/support/driver_contract.h"
#include "tests/support/s3_peer.h"

#define MIB (1 << 20)

/* ---- The contract of all drivers ---- */

static const struct contract_row {
    const char *name;
    void (*check)(const struct driver_contract *contract);
} contract_rows[] = {
#define X(name) {#name, contract_##name},
    DRIVER_CONTRACT(X)
#undef X
};

static void a_folder_keeps_it(void **state)
{
    const struct contract_row *row = *state;
    const struct blob_test_folder folder = blob_test_folder_new(false);
    OWNED(driver) *driver = NULL;
    OWNED(driver) *another = NULL;
    struct error err = {0};

    must(driver_fs_open(folder.path, UINT64_MAX, &driver, &err), &err);
    must(driver_fs_open(folder.path, UINT64_MAX, &another, &err), &err);
    row->check(&(struct driver_contract){driver, another, 60000});
    blob_test_folder_done(&folder);
}

/* Both drivers are the same one, because no other process sees its memory. */
static void memory_keeps_it(void **state)
{
    const struct contract_row *row = *state;
    OWNED(driver) *driver = NULL;
    struct error err = {0};

    must(driver_memory_open(NULL, &driver, &err), &err);
    row->check(&(struct driver_contract){driver, driver, 60000});
}

static void a_bucket_keeps_it(void **state)
{
    const struct contract_row *row = *state;
    OWNED(driver) *driver = s3_peer_driver(&peer);
    OWNED(driver) *another = s3_peer_driver(&peer);

    row->check(&(struct driver_contract){driver, another, peer.is_real ? 3u << 20 : 60000});
    assert_int_equal(s3_peer_rows(&peer), 0);
}

static void check_blob(struct blob_test *test, const struct blob_content *content, uint64_t seed)
{
    OWNED(blob_reader) *reader = NULL;
    struct error err = {0};

    must(blob_reader_open(test->store, &test->upload.identity, content, test->key, &reader, &err), &err);
    assert_true(blob_test_reads(reader, seed, 0, content->length, 256 << 10, &err));
    must(blob_verify(reader, &(struct blob_verify_options){.with_digest = true}, &err), &err);
}

static struct result keep_entry(void *context, const struct driver_entry *entry, struct error *err)
{
    (void)err;
    *(struct driver_entry *)context = *entry;
    return SUCCESS;
}

static const struct round_row {
    const char *name;
    uint64_t length;
} round_rows[] = {{"nothing", 0}, {"a byte", 1}, {"a record", 65520}, {"1 MiB and 1", MIB + 1}, {"40 MiB and 5", 40 * MIB + 5}};

static void makes_a_round_trip(void **state)
{
    const struct round_row *row = *state;
    const struct digest expected = blob_test_digest(DIGEST_SHA256, 7, row->length);
    OWNED(blob_writer) *writer = NULL;
    struct driver_entry entry = {.part = UINT32_MAX};
    struct blob_test test;
    struct blob_content content;
    struct error err = {0};
    bool there = false;

    open_test(&test);
    must(blob_test_writer(&test, &writer, &err), &err);
    must(blob_test_write(writer, 7, row->length, 131072, &err), &err);
    must(blob_writer_close(writer, &expected, &content, &err), &err);
    blob_writer_committed(writer);
    check_blob(&test, &content, 7);
    must(blob_list(test.store, keep_entry, &entry, &err), &err);
    must(blob_has(test.store, &entry, &there, &err), &err);
    assert_true(there);
    must(blob_remove(test.store, &test.upload.identity.blob, &err), &err);
    must(blob_has(test.store, &entry, &there, &err), &err);
    assert_false(there);
    blob_writer_free(GIVE(writer));
    blob_test_done(&test);
}

static void any_schedule_gives_the_same_content(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= (peer.is_real ? 6 : 15); seed++) {
        struct blob_test test;
        open_test(&test);
        blob_schedule_run(&test, seed, peer.is_real ? 40 * MIB : 1500000);
        blob_test_done(&test);
    }
}

/* usage: test_driver_s3 [PATTERN]: only tests with such a name */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_schedule_gives_the_same_content),
    };
    const struct CMUnitTest own[] = {
        cmocka_unit_test(nothing_was_left_behind),
    };

    if (argc > 1) cmocka_set_test_filter(argv[1]);
    s3_peer_start(&peer);
    int failed = RUN_TABLE(contract_rows, a_bucket_keeps_it) + RUN_TABLE(round_rows, makes_a_round_trip) +
                 cmocka_run_group_tests(tests, NULL, NULL);
    if (!peer.is_real)
        failed += RUN_TABLE(contract_rows, a_folder_keeps_it) + RUN_TABLE(contract_rows, memory_keeps_it) +
                  cmocka_run_group_tests(own, NULL, NULL);
    s3_peer_stop(&peer);
    return failed;
}
