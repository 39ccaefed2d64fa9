/* keyd's ledger of runs: promises, shares of organisations and projects, earlier versions, failing disks. */
#include "tests/unit/keyd_folder_fixture.h"

#include <string.h>

#include "base/fault.h"
#include "keyd/run_ledger.h"

static const uint8_t ledger_key[JOURNAL_KEY_SIZE] = {7};

enum { NOON_MS = 1000000 };

static struct run_promise promise_of(uint8_t subject, uint8_t digest)
{
    return (struct run_promise){
        .subject = {subject}, .digest = {digest}, .nonce = {9}, .from_ms = 1, .until_ms = 2, .keep_ms = NOON_MS + 10};
}

static bool is_kept(const struct folder *folder, uint8_t subject, uint8_t digest, int64_t now_ms)
{
    OWNED(run_ledger) *runs = NULL;
    struct run_promise found, wanted = promise_of(subject, digest);
    struct error err = {0};

    if (!run_ledger_open(folder->fd, ledger_key, NOON_MS, &runs, &err).ok) return false;
    return run_ledger_find(runs, wanted.subject, now_ms, &found) &&
           memcmp(found.digest, wanted.digest, sizeof found.digest) == 0 && found.nonce[0] == 9 && found.from_ms == 1 &&
           found.until_ms == 2;
}

static void promises_are_kept_until_they_end(void **state)
{
    const struct run_promise first = promise_of(1, 1), other = promise_of(1, 2);
    OWNED_FOLDER folder;
    OWNED(run_ledger) *runs = NULL;
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    assert_true(run_ledger_create(folder.fd, ledger_key, 0, &err).ok);
    assert_true(run_ledger_open(folder.fd, ledger_key, NOON_MS, &runs, &err).ok);
    assert_true(run_ledger_keep(runs, &first, NULL, NOON_MS, &err).ok);
    assert_true(run_ledger_keep(runs, &first, NULL, NOON_MS, &err).ok);
    assert_false(run_ledger_keep(runs, &other, NULL, NOON_MS, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    assert_int_equal(run_ledger_since_ms(runs), 0);
    run_ledger_free(runs);
    runs = NULL;
    assert_true(is_kept(&folder, 1, 1, NOON_MS));
    assert_false(is_kept(&folder, 1, 1, NOON_MS + 10));
    assert_false(is_kept(&folder, 2, 1, NOON_MS));
}

/* Requests from before are refused, because nobody knows what was signed for them. */
static void a_lost_ledger_of_runs_is_made_anew(void **state)
{
    OWNED_FOLDER folder;
    OWNED(run_ledger) *runs = NULL, *again = NULL;
    struct run_ledger *second = NULL;
    uint8_t other_key[JOURNAL_KEY_SIZE] = {8};
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    assert_true(run_ledger_open(folder.fd, ledger_key, NOON_MS, &runs, &err).ok);
    assert_int_equal(run_ledger_since_ms(runs), NOON_MS);
    assert_false(run_ledger_open(folder.fd, ledger_key, NOON_MS, &second, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    run_ledger_free(runs);
    runs = NULL;
    assert_false(run_ledger_open(folder.fd, other_key, NOON_MS, &second, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    assert_true(run_ledger_open(folder.fd, ledger_key, NOON_MS + 5, &again, &err).ok);
    assert_int_equal(run_ledger_since_ms(again), NOON_MS);
}

/* Each write and each fsync fails once: no signature leaves then, and earlier promises stay. */
static void failing_disks_break_no_promise_of_runs(void **state)
{
    const struct run_promise first = promise_of(1, 1), second = promise_of(2, 2);
    unsigned long nth = 1;

    (void)state;
    for (bool has_fired = true; has_fired; nth++) {
        OWNED_FOLDER folder;
        struct run_ledger *runs = NULL;
        struct error err = {0};

        folder_make(&folder);
        assert_true(run_ledger_create(folder.fd, ledger_key, 0, &err).ok);
        assert_true(run_ledger_open(folder.fd, ledger_key, NOON_MS, &runs, &err).ok);
        assert_true(run_ledger_keep(runs, &first, NULL, NOON_MS, &err).ok);
        fault_arm(nth);
        const bool ok = run_ledger_keep(runs, &second, NULL, NOON_MS, &err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        assert_int_equal(ok, !has_fired);
        assert_int_equal(run_ledger_is_broken(runs), has_fired);
        if (has_fired) assert_false(run_ledger_keep(runs, &second, NULL, NOON_MS, &err).ok);
        run_ledger_free(runs);
        assert_true(is_kept(&folder, 1, 1, NOON_MS));
        if (ok) assert_true(is_kept(&folder, 2, 2, NOON_MS));
    }
    assert_failures(nth - 2, 4);
}

/* An order, and what follows from it. */
static struct run_promise order_of(uint16_t subject, uint32_t reserves, uint64_t organisation, uint64_t project)
{
    struct run_promise promise = promise_of((uint8_t)subject, (uint8_t)subject);

    promise.subject[1] = (uint8_t)(subject >> 8);
    promise.subject[2] = 1;
    promise.reserves = reserves;
    promise.organisation = organisation;
    promise.project = project;
    return promise;
}

static struct run_follows follows_of(const struct run_promise *order, bool is_last)
{
    struct run_follows follows = {.is_last = is_last};

    memcpy(follows.order, order->subject, sizeof follows.order);
    return follows;
}

static enum error_kind keep(struct run_ledger *runs, const struct run_promise *promise, const struct run_follows *follows,
                            int64_t now_ms)
{
    struct error err = {0};

    return run_ledger_keep(runs, promise, follows, now_ms, &err).ok ? ERROR_NONE : err.kind;
}

/* Orders of this size by one project, until keyd refuses the next one. */
static unsigned fill(struct run_ledger *runs, uint16_t first, uint32_t places, uint64_t organisation, uint64_t project)
{
    for (unsigned count = 0;; count++) {
        const struct run_promise order = order_of((uint16_t)(first + count), places - 1, organisation, project);
        if (keep(runs, &order, NULL, NOON_MS) != ERROR_NONE) return count;
    }
}

static void open_runs(struct folder *folder, struct run_ledger **runs_out)
{
    struct error err = {0};

    folder_make(folder);
    assert_true(run_ledger_create(folder->fd, ledger_key, 0, &err).ok);
    assert_true(run_ledger_open(folder->fd, ledger_key, NOON_MS, runs_out, &err).ok);
}

static void reopen_runs(const struct folder *folder, struct run_ledger **runs)
{
    struct error err = {0};

    run_ledger_free(*runs);
    *runs = NULL;
    assert_true(run_ledger_open(folder->fd, ledger_key, NOON_MS, runs, &err).ok);
}

/* A project takes all that it can, and then another one of its organisation; there is room for other organisations all the same. */
static void nobody_takes_all_places(void **state)
{
    const struct run_promise unknown = promise_of(99, 99);
    OWNED_FOLDER folder;
    OWNED(run_ledger) *runs = NULL;
    struct error err = {0};

    (void)state;
    open_runs(&folder, &runs);
    assert_int_equal(fill(runs, 1000, 256, 1, 1), 50); /* of 200 */
    assert_int_equal(fill(runs, 2000, 256, 1, 2), 25);
    assert_int_equal(fill(runs, 3000, 256, 2, 3), 31);
    reopen_runs(&folder, &runs); /* whose a place is, is on the disk */
    assert_int_equal(fill(runs, 4000, 256, 1, 1), 0);
    assert_int_equal(fill(runs, 5000, 256, 3, 4), 24);

    assert_true(run_ledger_end(runs, unknown.subject, NOON_MS, &err).ok);
}

/* Whoever may ask by a token takes places that nobody has approved: its project and its organisation keep room for orders. */
static void requests_leave_room_for_orders(void **state)
{
    OWNED_FOLDER folder;
    OWNED(run_ledger) *runs = NULL;

    (void)state;
    open_runs(&folder, &runs);
    for (uint32_t places = RUN_PROMISES_MAX / 2; places >= 800; places /= 2) { /* of others; 800 places are left */
        const struct run_promise other = order_of((uint16_t)places, places - 1, places, places);
        assert_int_equal(keep(runs, &other, NULL, NOON_MS), ERROR_NONE);
    }
    assert_int_equal(fill(runs, 30000, 1, 1, 1), 133);
    assert_int_equal(fill(runs, 31000, 5, 1, 1), 13); /* of one node, with three attempts */
    assert_int_equal(fill(runs, 32000, 1, 1, 1), 0);
    assert_true(fill(runs, 33000, 1, 1, 2) > 0); /* another project of the organisation */
    assert_true(fill(runs, 34000, 5, 1, 2) > 0);
}

/* Requests of one principal, until keyd refuses the next one. */
static unsigned ask(struct run_ledger *runs, uint16_t first, uint64_t principal, uint64_t project)
{
    for (unsigned count = 0;; count++) {
        struct run_promise request = order_of((uint16_t)(first + count), 0, 1, project);
        request.principal = principal;
        if (keep(runs, &request, NULL, NOON_MS) != ERROR_NONE) return count;
    }
}

/* The token of one CI job takes no more than half of what its project gets, also if it asks in several projects. */
static void a_principal_leaves_room_for_others(void **state)
{
    OWNED_FOLDER folder;
    OWNED(run_ledger) *runs = NULL;

    (void)state;
    open_runs(&folder, &runs);
    for (uint32_t places = RUN_PROMISES_MAX / 2; places >= 800; places /= 2) { /* of others; 800 places are left */
        const struct run_promise other = order_of((uint16_t)places, places - 1, places, places);
        assert_int_equal(keep(runs, &other, NULL, NOON_MS), ERROR_NONE);
    }
    assert_int_equal(ask(runs, 30000, 7, 1), 80);
    reopen_runs(&folder, &runs);
    assert_int_equal(ask(runs, 31000, 7, 1), 0);
    assert_int_equal(ask(runs, 32000, 7, 2), 0); /* another project of the organisation */
    assert_true(ask(runs, 33000, 8, 1) > 30);    /* somebody else */
    assert_true(fill(runs, 34000, 5, 1, 1) > 0); /* an order */
}

/* At the edge an order is refused, and no lease or admission of an order that was signed. */
static void a_full_ledger_refuses_orders_alone(void **state)
{
    const struct run_promise small = order_of(1, 1, 1, 1), too_large = order_of(7, RUN_PROMISES_MAX, 7, 7);
    struct run_promise lease = promise_of(4, 4), whole = order_of(8, RUN_PROMISES_MAX / 4 - 1, 8, 8);
    const struct run_follows of_small = follows_of(&small, false);
    OWNED_FOLDER folder;
    OWNED(run_ledger) *runs = NULL;
    struct error err = {0};

    (void)state;
    open_runs(&folder, &runs);
    assert_int_equal(keep(runs, &too_large, NULL, NOON_MS), ERROR_LIMIT);
    assert_int_equal(keep(runs, &small, NULL, NOON_MS), ERROR_NONE);
    for (uint16_t i = 0; i < 40; i++)
        for (uint32_t places = 8192; places > 1; places /= 2)
            (void)fill(runs, (uint16_t)(1000U + i * 1000U + places / 16), places, 10 + i, 10 + i);
    assert_int_equal(fill(runs, 100, 2, 9, 9), 0);
    reopen_runs(&folder, &runs); /* what is reserved is on the disk */
    assert_int_equal(fill(runs, 100, 2, 9, 9), 0);
    assert_int_equal(keep(runs, &lease, &of_small, NOON_MS), ERROR_NONE);
    assert_int_equal(keep(runs, &lease, &of_small, NOON_MS), ERROR_NONE);
    assert_int_equal(keep(runs, &small, NULL, NOON_MS), ERROR_NONE); /* the very same is signed again */
    do lease.subject[1]++;                                           /* more than it reserved: as long as there is room */
    while (keep(runs, &lease, &of_small, NOON_MS) == ERROR_NONE);
    assert_in_range(lease.subject[1], 1, 4);
    const struct run_promise large = order_of(1000 + 512, 8191, 10, 10);
    assert_true(run_ledger_end(runs, large.subject, NOON_MS, &err).ok);
    reopen_runs(&folder, &runs); /* its run has ended, so nothing is reserved for it any more */
    assert_int_equal(keep(runs, &lease, &of_small, NOON_MS), ERROR_NONE);
    assert_true(fill(runs, 100, 2, 9, 9) > 500);
    assert_int_equal(keep(runs, &large, NULL, NOON_MS), ERROR_NONE); /* it stays, so its request gets no other order */
    whole.keep_ms = NOON_MS + 30;
    assert_int_equal(keep(runs, &whole, NULL, NOON_MS + 9), ERROR_LIMIT);
    assert_int_equal(keep(runs, &whole, NULL, NOON_MS + 10), ERROR_NONE); /* all others have expired */
}

/* The admission is the last: what was reserved for more attempts becomes free. */
static void an_admission_frees_what_is_reserved(void **state)
{
    const struct run_promise order = order_of(1, RUN_PROMISES_MAX / 4 - 1, 1, 1), next = order_of(2, 600, 1, 1);
    const struct run_promise admission = promise_of(6, 6);
    const struct run_follows last = follows_of(&order, true);
    OWNED_FOLDER folder;
    OWNED(run_ledger) *runs = NULL;

    (void)state;
    open_runs(&folder, &runs);
    assert_int_equal(keep(runs, &order, NULL, NOON_MS), ERROR_NONE);
    assert_int_equal(keep(runs, &next, NULL, NOON_MS), ERROR_LIMIT);
    assert_int_equal(keep(runs, &admission, &last, NOON_MS), ERROR_NONE);
    assert_int_equal(keep(runs, &next, NULL, NOON_MS), ERROR_NONE);
}

/* ---- ledgers of runs of versions 1 to 3 ---- */

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
        cmocka_unit_test(promises_are_kept_until_they_end),
        cmocka_unit_test(a_full_ledger_refuses_orders_alone),
        cmocka_unit_test(nobody_takes_all_places),
        cmocka_unit_test(requests_leave_room_for_orders),
        cmocka_unit_test(a_principal_leaves_room_for_others),
        cmocka_unit_test(a_ledger_of_runs_without_principals_is_replaced),
        cmocka_unit_test(an_admission_frees_what_is_reserved),
        cmocka_unit_test(a_ledger_of_runs_without_shares_is_replaced),
        cmocka_unit_test(a_small_ledger_of_runs_grows),
        cmocka_unit_test(a_lost_ledger_of_runs_is_made_anew),
        cmocka_unit_test(failing_disks_break_no_promise_of_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
