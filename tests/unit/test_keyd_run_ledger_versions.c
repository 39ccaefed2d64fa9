/* keyd's ledger of runs: files of earlier versions. */
#include "tests/unit/keyd_run_ledger_fixture.h"

enum { OLD_BODY = 8 + 4096 * 104, SECOND_BODY = 12 + RUN_PROMISES_MAX * 108 };

static size_t old_size(uint8_t version)
{
    return version == 1 ? OLD_BODY : 0;
}

static void write_old(const void *context, uint8_t *body_out)
{
    const struct run_promise *promise = context;

    memset(body_out, 0, OLD_BODY);
    store_u64(body_out, 77); /* since */
    body_out += 8 + 4095 * 104;
    memcpy(body_out, promise->subject, 32);
    memcpy(body_out + 32, promise->digest, 32);
    memcpy(body_out + 64, promise->nonce, 16);
    store_u64(body_out + 80, (uint64_t)promise->from_ms);
    store_u64(body_out + 88, (uint64_t)promise->until_ms);
    store_u64(body_out + 96, (uint64_t)promise->keep_ms);
}

static size_t second_size(uint8_t version)
{
    return version == 2 ? SECOND_BODY : 0;
}

static size_t second_length(const uint8_t *body)
{
    return 12 + (size_t)load_u32(body + 8) * 108;
}

static void write_second(const void *context, uint8_t *body_out)
{
    const struct run_promise *promise = context;

    store_u64(body_out, 77); /* since */
    store_u32(body_out + 8, 1);
    body_out += 12;
    memcpy(body_out, promise->subject, 32);
    memcpy(body_out + 32, promise->digest, 32);
    memcpy(body_out + 64, promise->nonce, 16);
    store_u64(body_out + 80, (uint64_t)promise->from_ms);
    store_u64(body_out + 88, (uint64_t)promise->until_ms);
    store_u64(body_out + 96, (uint64_t)promise->keep_ms);
    store_u32(body_out + 104, 50000);
}

static void a_ledger_of_runs_without_shares_is_replaced(void **state)
{
    const struct journal_format second = {.name = RUN_LEDGER_FILE,
                                          .magic = "SJRL",
                                          .version = 2,
                                          .copy_size = (size_t)1351 * 4096,
                                          .body_size = second_size,
                                          .body_length = second_length,
                                          .write = write_second};
    const struct run_promise first = promise_of(1, 1), fits = order_of(2, 200, 1, 1), too_large = order_of(3, 600, 2, 2);
    OWNED_FOLDER folder;
    OWNED(run_ledger) *runs = NULL;
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    assert_true(journal_create(folder.fd, &second, ledger_key, &first, &err).ok);
    for (unsigned i = 0; i < 2; i++) assert_true(is_kept(&folder, 1, 1, NOON_MS));
    assert_true(run_ledger_open(folder.fd, ledger_key, NOON_MS, &runs, &err).ok);
    assert_int_equal(run_ledger_since_ms(runs), 77);
    assert_int_equal(keep(runs, &fits, NULL, NOON_MS), ERROR_NONE);
    assert_int_equal(keep(runs, &too_large, NULL, NOON_MS), ERROR_LIMIT); /* what was reserved still is */
}

static size_t third_size(uint8_t version)
{
    return version == 3 ? 12 + RUN_PROMISES_MAX * 124 : 0;
}

static size_t third_length(const uint8_t *body)
{
    return 12 + (size_t)load_u32(body + 8) * 124;
}

static void write_third(const void *context, uint8_t *body_out)
{
    write_second(context, body_out);
    store_u64(body_out + 12 + 108, 5);
    store_u64(body_out + 12 + 116, 6);
}

static void a_ledger_of_runs_without_principals_is_replaced(void **state)
{
    const struct journal_format third = {.name = RUN_LEDGER_FILE,
                                         .magic = "SJRL",
                                         .version = 3,
                                         .copy_size = (size_t)1551 * 4096,
                                         .body_size = third_size,
                                         .body_length = third_length,
                                         .write = write_third};
    const struct run_promise first = promise_of(1, 1), fits = order_of(2, 200, 1, 1), too_large = order_of(3, 600, 2, 2);
    OWNED_FOLDER folder;
    OWNED(run_ledger) *runs = NULL;
    struct run_promise found;
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    assert_true(journal_create(folder.fd, &third, ledger_key, &first, &err).ok);
    for (unsigned i = 0; i < 2; i++) assert_true(is_kept(&folder, 1, 1, NOON_MS));
    assert_true(run_ledger_open(folder.fd, ledger_key, NOON_MS, &runs, &err).ok);
    assert_true(run_ledger_find(runs, first.subject, NOON_MS, &found));
    assert_true(found.reserves == 50000 && found.organisation == 5 && found.project == 6 && found.principal == 0);
    assert_int_equal(keep(runs, &fits, NULL, NOON_MS), ERROR_NONE);
    assert_int_equal(keep(runs, &too_large, NULL, NOON_MS), ERROR_LIMIT);
}

enum { FOURTH_BODY = 12 + RUN_PROMISES_MAX * 132 };

static size_t fourth_size(uint8_t version)
{
    return version == 4 ? FOURTH_BODY : 0;
}

static size_t fourth_length(const uint8_t *body)
{
    return 12 + (size_t)load_u32(body + 8) * 132;
}

/* One request less than all may be, each of another principal and another organisation. */
static void write_fourth(const void *context, uint8_t *body_out)
{
    (void)context;
    store_u64(body_out, 77); /* since */
    store_u32(body_out + 8, RUN_REQUESTS_MAX - 1);
    body_out += 12;
    for (uint32_t i = 0; i < RUN_REQUESTS_MAX - 1; i++, body_out += 132) {
        memset(body_out, 0, 132);
        store_u32(body_out, i);
        body_out[31] = 1;
        store_u64(body_out + 96, NOON_MS + 10);
        for (size_t at = 108; at < 132; at += 8) store_u64(body_out + at, 1000 + i);
    }
}

/* Also the ledger of a keyd that had no such limit, with as many made-up names as requests. */
static void all_requests_together_leave_room_for_orders(void **state)
{
    const struct journal_format fourth = {.name = RUN_LEDGER_FILE,
                                          .magic = "SJRL",
                                          .version = 4,
                                          .copy_size = (size_t)1651 * 4096,
                                          .body_size = fourth_size,
                                          .body_length = fourth_length,
                                          .write = write_fourth};
    struct run_promise last = order_of(1, 0, 1, 1), next = order_of(2, 0, 2, 2), order = order_of(3, 800, 3, 3);
    OWNED_FOLDER folder;
    OWNED(run_ledger) *runs = NULL;
    struct error err = {0};

    (void)state;
    last.principal = next.principal = order.principal = 1;
    folder_make(&folder);
    assert_true(journal_create(folder.fd, &fourth, ledger_key, NULL, &err).ok);
    assert_true(run_ledger_open(folder.fd, ledger_key, NOON_MS, &runs, &err).ok);
    assert_int_equal(keep(runs, &last, NULL, NOON_MS), ERROR_NONE);
    assert_int_equal(keep(runs, &next, NULL, NOON_MS), ERROR_LIMIT);
    assert_int_equal(keep(runs, &order, NULL, NOON_MS), ERROR_NONE);
    reopen_runs(&folder, &runs); /* what is a request is on the disk */
    assert_int_equal(keep(runs, &next, NULL, NOON_MS), ERROR_LIMIT);
    next.keep_ms = NOON_MS + 30;
    assert_int_equal(keep(runs, &next, NULL, NOON_MS + 10), ERROR_NONE); /* the others have expired */
}

static void a_small_ledger_of_runs_grows(void **state)
{
    const struct journal_format old = {.name = RUN_LEDGER_FILE,
                                       .magic = "SJRL",
                                       .version = 1,
                                       .copy_size = (size_t)105 * 4096,
                                       .body_size = old_size,
                                       .write = write_old};
    const struct run_promise first = promise_of(1, 1), next = promise_of(2, 2);
    OWNED_FOLDER folder;
    OWNED(run_ledger) *runs = NULL;
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    assert_true(journal_create(folder.fd, &old, ledger_key, &first, &err).ok);
    for (unsigned i = 0; i < 2; i++) assert_true(is_kept(&folder, 1, 1, NOON_MS));
    assert_true(run_ledger_open(folder.fd, ledger_key, NOON_MS, &runs, &err).ok);
    assert_int_equal(run_ledger_since_ms(runs), 77);
    assert_int_equal(keep(runs, &next, NULL, NOON_MS), ERROR_NONE);
    run_ledger_free(runs);
    runs = NULL;
    assert_true(is_kept(&folder, 1, 1, NOON_MS) && is_kept(&folder, 2, 2, NOON_MS));
}
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ledger_of_runs_without_shares_is_replaced),
        cmocka_unit_test(a_ledger_of_runs_without_principals_is_replaced),
        cmocka_unit_test(all_requests_together_leave_room_for_orders),
        cmocka_unit_test(a_small_ledger_of_runs_grows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
