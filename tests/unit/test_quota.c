/* The limits of one address or one principal at a gateway. */
#include "tests/support/unit.h"

#include <stdio.h>

#include "gateway/http/quota.h"

static void a_quota_counts_and_forgets(void **state)
{
    const struct quota_limits limits = {.at_a_time = 2};
    struct quota_ticket tickets[3] = {0};
    OWNED(quota) *quota = NULL;
    struct error err = {0};

    (void)state;
    assert_true(quota_new(8, &quota, &err).ok);
    assert_true(quota_enter(quota, "address", "a", &limits, &tickets[0], &err).ok);
    assert_true(quota_enter(quota, "address", "a", &limits, &tickets[1], &err).ok);
    assert_false(quota_enter(quota, "address", "a", &limits, &tickets[2], &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_int_equal(tickets[2].slot, 0);
    assert_true(quota_enter(quota, "principal", "a", &limits, &tickets[2], &err).ok);
    quota_leave(quota, &tickets[0]);
    quota_leave(quota, &tickets[0]);
    assert_true(quota_enter(quota, "address", "a", &limits, &tickets[0], &err).ok);
    assert_false(quota_enter(quota, "address", "a", &(struct quota_limits){.at_a_time = 2}, &(struct quota_ticket){0}, &err).ok);
}

static void a_rate_allows_a_burst_and_no_more(void **state)
{
    const struct quota_limits limits = {.at_a_time = 1, .rate = 2};
    OWNED(quota) *quota = NULL;
    struct error err = {0};
    unsigned allowed = 0;

    (void)state;
    assert_true(quota_new(8, &quota, &err).ok);
    for (int i = 0; i < 100; i++) {
        struct quota_ticket ticket = {0};
        allowed += quota_enter(quota, "principal", "a", &limits, &ticket, &err).ok;
        quota_leave(quota, &ticket);
    }
    assert_in_range(allowed, 20, 21);
    assert_int_equal(err.kind, ERROR_LIMIT);
}

static void a_full_table_refuses_and_recovers(void **state)
{
    const struct quota_limits limits = {.at_a_time = 1};
    struct quota_ticket tickets[64] = {0};
    OWNED(quota) *quota = NULL;
    struct error err = {0};
    unsigned entered = 0;
    char key[8];

    (void)state;
    assert_true(quota_new(8, &quota, &err).ok);
    for (unsigned i = 0; i < COUNT(tickets); i++) {
        (void)snprintf(key, sizeof key, "%u", i);
        entered += quota_enter(quota, "address", key, &limits, &tickets[i], &err).ok;
    }
    assert_int_equal(entered, 16);
    for (unsigned i = 0; i < COUNT(tickets); i++) quota_leave(quota, &tickets[i]);
    assert_true(quota_enter(quota, "address", "another", &limits, &tickets[0], &err).ok);
}

#define USES 9 /* of ten at once: the place is free again nine seconds later */

static unsigned enter_and_leave(struct quota *quota, const char *realm, unsigned count)
{
    const struct quota_limits limits = {.at_a_time = 1, .rate = 1, .realm = realm};
    struct error err = {0};
    unsigned entered = 0;
    char key[16];

    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(key, sizeof key, "%s+%u", realm, i);
        for (unsigned use = 0; use < USES; use++) {
            struct quota_ticket ticket = {0};
            const bool is_in = quota_enter(quota, "principal", key, &limits, &ticket, &err).ok;
            entered += is_in && use == 0;
            quota_leave(quota, &ticket);
        }
    }
    return entered;
}

/* Many robots of one tenant kept the robots of all others out, as long as each sent a request now and then. */
static void one_realm_does_not_keep_others_out(void **state)
{
    OWNED(quota) *quota = NULL;
    struct error err = {0};

    (void)state;
    assert_true(quota_new(8, &quota, &err).ok); /* 16 places, and each key may be in any of them */
    assert_int_equal(enter_and_leave(quota, "acme", 100), 16);
    assert_int_equal(enter_and_leave(quota, "beta", 100), 8); /* half of them, and no more */
    assert_int_equal(enter_and_leave(quota, "gamma", 3), 3);
}

/* A principal with a running request keeps its place, because its resources are counted there. */
static void a_place_in_use_is_nobody_elses(void **state)
{
    const struct quota_limits limits = {.at_a_time = 1, .rate = 1, .realm = "acme"};
    struct quota_ticket tickets[16] = {0}, other = {0};
    OWNED(quota) *quota = NULL;
    struct error err = {0};
    char key[8];

    (void)state;
    assert_true(quota_new(8, &quota, &err).ok);
    for (unsigned i = 0; i < COUNT(tickets); i++) {
        (void)snprintf(key, sizeof key, "%u", i);
        assert_true(quota_enter(quota, "principal", key, &limits, &tickets[i], &err).ok);
    }
    assert_int_equal(enter_and_leave(quota, "beta", 1), 0);
    quota_leave(quota, &tickets[7]);
    assert_int_equal(enter_and_leave(quota, "beta", 2), 1); /* one place, which then belongs to it */
    assert_false(quota_enter(quota, "principal", "7", &limits, &other, &err).ok);
    for (unsigned i = 0; i < COUNT(tickets); i++) quota_leave(quota, &tickets[i]);
}

static void memory_is_counted_until_it_is_given_back(void **state)
{
    const struct quota_limits limits = {.at_a_time = 2};
    struct quota_ticket first = {0}, second = {0}, other = {0}, none = {0};
    OWNED(quota) *quota = NULL;
    struct error err = {0};

    (void)state;
    assert_true(quota_new(8, &quota, &err).ok);
    assert_true(quota_enter(quota, "principal", "a", &limits, &first, &err).ok);
    assert_true(quota_enter(quota, "principal", "a", &limits, &second, &err).ok);
    assert_true(quota_enter(quota, "principal", "b", &limits, &other, &err).ok);
    assert_true(quota_hold(quota, &first, 0, 60, 100));
    assert_true(quota_hold(quota, &second, 0, 40, 100));
    assert_false(quota_hold(quota, &second, 0, 1, 100));
    assert_true(quota_hold(quota, &other, 0, 100, 100));
    assert_true(quota_hold(quota, &none, 0, 1000, 100));
    assert_true(quota_hold(quota, &first, 1, 100, 100)); /* of another kind */
    assert_true(quota_hold(quota, &second, 0, -1, 100));
    quota_leave(quota, &first);
    quota_leave(quota, &first);
    assert_true(quota_hold(quota, &first, 0, 1000, 100)); /* it is no ticket any more */
    assert_true(quota_hold(quota, &second, 0, 60, 100));
    assert_false(quota_hold(quota, &second, 0, 1, 100));
    quota_leave(quota, &second);
    assert_true(quota_enter(quota, "principal", "a", &limits, &first, &err).ok);
    assert_true(quota_hold(quota, &first, 0, 100, 100));
}

static struct result enter_once(void *context, struct error *err)
{
    const struct quota_limits limits = {.at_a_time = 1};
    OWNED(quota) *quota = NULL;
    struct quota_ticket ticket;

    (void)context;
    TRY_UNTOUCHED_BYTES(quota, quota_new(8, &quota, err));
    TRY_UNTOUCHED_BYTES(ticket, quota_enter(quota, "address", "a", &limits, &ticket, err));
    return SUCCESS;
}

static void it_survives_lack_of_memory(void **state)
{
    (void)state;
    fail_each(enter_once, NULL, ERROR_NO_MEMORY, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quota_counts_and_forgets),        cmocka_unit_test(a_rate_allows_a_burst_and_no_more),
        cmocka_unit_test(a_full_table_refuses_and_recovers), cmocka_unit_test(one_realm_does_not_keep_others_out),
        cmocka_unit_test(a_place_in_use_is_nobody_elses),    cmocka_unit_test(memory_is_counted_until_it_is_given_back),
        cmocka_unit_test(it_survives_lack_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
