/* keyd's ledger of runs: promises, shares of organisations and projects and principals, failing disks. */
#include "tests/unit/keyd_run_ledger_fixture.h"

#include "base/fault.h"

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

static struct run_follows follows_of(const struct run_promise *order, bool is_last)
{
    struct run_follows follows = {.is_last = is_last};

    memcpy(follows.order, order->subject, sizeof follows.order);
    return follows;
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
static unsigned ask_in(struct run_ledger *runs, uint16_t first, uint64_t principal, uint64_t organisation, uint64_t project)
{
    for (unsigned count = 0;; count++) {
        struct run_promise request = order_of((uint16_t)(first + count), 0, organisation, project);
        request.principal = principal;
        if (keep(runs, &request, NULL, NOON_MS) != ERROR_NONE) return count;
    }
}

static unsigned ask(struct run_ledger *runs, uint16_t first, uint64_t principal, uint64_t project)
{
    return ask_in(runs, first, principal, 1, project);
}

/* Of the ledger 800 places are left, of which nobody has one that asks. */
static void open_nearly_full(struct folder *folder, struct run_ledger **runs_out)
{
    open_runs(folder, runs_out);
    for (uint32_t places = RUN_PROMISES_MAX / 2; places >= 800; places /= 2) {
        const struct run_promise other = order_of((uint16_t)places, places - 1, places, places);
        assert_int_equal(keep(*runs_out, &other, NULL, NOON_MS), ERROR_NONE);
    }
}

/* The token of one CI job takes no more than half of what its project gets, also if it asks in several projects. */
static void a_principal_leaves_room_for_others(void **state)
{
    OWNED_FOLDER folder;
    OWNED(run_ledger) *runs = NULL;

    (void)state;
    open_nearly_full(&folder, &runs);
    assert_int_equal(ask(runs, 30000, 7, 1), 80);
    reopen_runs(&folder, &runs);
    assert_int_equal(ask(runs, 31000, 7, 1), 0);
    assert_int_equal(ask(runs, 32000, 7, 2), 0); /* another project of the organisation */
    assert_true(ask(runs, 33000, 8, 1) > 30);    /* somebody else */
    assert_true(fill(runs, 34000, 5, 1, 1) > 0); /* an order */
}

/* A gateway that somebody has taken over names any organisation for the token that it has. */
static void made_up_organisations_give_a_principal_no_further_share(void **state)
{
    OWNED_FOLDER folder;
    OWNED(run_ledger) *runs = NULL;
    unsigned more = 0;

    (void)state;
    open_nearly_full(&folder, &runs);
    assert_int_equal(ask_in(runs, 30000, 7, 1, 1), 80);
    for (uint16_t i = 0; i < 20; i++) more += ask_in(runs, (uint16_t)(31000 + 1000 * i), 7, 2U + i, 2U + i);
    assert_true(more < 12);
    assert_true(ask_in(runs, 60000, 8, 2, 2) > 30); /* somebody else, in one of these */
}

/* A trainer orders runs and cancels them: each keeps its place until its request has expired. */
static void orders_of_a_principal_leave_room_for_others(void **state)
{
    OWNED_FOLDER folder;
    OWNED(run_ledger) *runs = NULL;
    unsigned count = 0;
    struct error err = {0};

    (void)state;
    open_nearly_full(&folder, &runs);
    for (struct run_promise order = order_of(30000, 4, 1, 1);; order.subject[0]++, order.digest[0]++, count++) {
        order.principal = 7;
        if (keep(runs, &order, NULL, NOON_MS) != ERROR_NONE) break;
        assert_true(run_ledger_end(runs, order.subject, NOON_MS, &err).ok);
    }
    assert_int_equal(count, 131);
    assert_true(ask(runs, 31000, 7, 1) > 0);     /* orders and requests have shares of their own */
    assert_true(fill(runs, 32000, 5, 1, 1) > 5); /* somebody else of the project */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(promises_are_kept_until_they_end),
        cmocka_unit_test(a_full_ledger_refuses_orders_alone),
        cmocka_unit_test(nobody_takes_all_places),
        cmocka_unit_test(requests_leave_room_for_orders),
        cmocka_unit_test(a_principal_leaves_room_for_others),
        cmocka_unit_test(made_up_organisations_give_a_principal_no_further_share),
        cmocka_unit_test(orders_of_a_principal_leave_room_for_others),
        cmocka_unit_test(an_admission_frees_what_is_reserved),
        cmocka_unit_test(a_lost_ledger_of_runs_is_made_anew),
        cmocka_unit_test(failing_disks_break_no_promise_of_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
