/* Expectations about the sample policies: which hold, and which are none. */
#include "tests/support/unit.h"

#include <stdio.h>

#include "policy/expectation.h"
#include "tests/support/policy.h"

#define NOW "2026-12-15T00:00:00Z"

static struct policy_set *samples(void)
{
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    OWNED_JSON policies = policy_examples();
    OWNED_JSON catalogue = policy_example("regions");
    OWNED_JSON networks = policy_json(
        "[{\"cidr\":\"10.1.0.0/16\",\"facts\":{\"geo\":\"AE/DU\",\"assurance\":4,\"recipient\":\"same-controller\"}}]");
    const struct policy_set_parts parts = {.epoch = 1,
                                           .policies = policies,
                                           .regions = json_object_get(catalogue, "regions"),
                                           .groups = json_object_get(catalogue, "groups"),
                                           .networks = networks};
    struct policy_set *set = NULL;
    struct error err = {0};

    must(policy_set_compose(&parts, &payload, &err), &err);
    must(policy_set_compile(buffer_bytes(&payload), &set, &err), &err);
    return set;
}

#define TEST(members) "{\"name\":\"n\",\"ops\":[\"ingest\"],\"scope\":\"health/a/b\"," members "}"
#define OWN           "\"label\":{\"lineage\":\"declared\"},"

static const struct row {
    const char *name, *test;
    bool holds;
} rows[] = {
    {"stored in the State", TEST(OWN "\"region\":\"azure/uaenorth\",\"expect\":\"allow\""), true},
    {"not stored elsewhere", TEST(OWN "\"region\":\"aws/eu-central-1\",\"expect\":\"deny\""), true},
    {"by that rule", TEST(OWN "\"region\":\"aws/eu-central-1\",\"expect\":\"deny\",\"rule\":\"H-STORE-AE\""), true},
    {"of that policy",
     TEST(OWN "\"region\":\"aws/eu-central-1\",\"expect\":\"deny\",\"rule\":\"H-STORE-AE\",\"policy\":\"health-ae\""), true},
    {"of that version",
     TEST(OWN "\"region\":\"aws/eu-central-1\",\"expect\":\"deny\",\"rule\":\"H-STORE-AE\",\"policy\":\"health-ae@3\""), true},
    {"of no other version",
     TEST(OWN "\"region\":\"aws/eu-central-1\",\"expect\":\"deny\",\"rule\":\"H-STORE-AE\",\"policy\":\"health-ae@4\""), false},
    {"of no policy with a longer id",
     TEST(OWN "\"region\":\"aws/eu-central-1\",\"expect\":\"deny\",\"rule\":\"H-STORE-AE\",\"policy\":\"health\""), false},
    {"by no other rule", TEST(OWN "\"region\":\"aws/eu-central-1\",\"expect\":\"deny\",\"rule\":\"H-KEY\""), false},
    {"allowed is not denied", TEST(OWN "\"region\":\"azure/uaenorth\",\"expect\":\"deny\""), false},
    {"denied is not allowed", TEST(OWN "\"region\":\"aws/eu-central-1\",\"expect\":\"allow\""), false},
    {"by facts", TEST(OWN "\"target\":{\"geo\":\"SA\"},\"expect\":\"deny\",\"rule\":\"H-STORE-AE\""), true},
    {"before the policy begins",
     TEST(OWN "\"region\":\"azure/uaenorth\",\"now\":\"2020-01-01T00:00:00Z\",\"expect\":\"deny\",\"rule\":\"SYS-NO-POLICY\""),
     true},
};

static void expectation_is_judged(void **state)
{
    const struct row *row = *state;
    OWNED(policy_set) *set = samples();
    OWNED_JSON test = policy_json(row->test);
    OWNED_JSON document = json_pack("{s:[O]}", "tests", test);
    struct policy_expectation_answer OWNED_ANSWER answer = {.decision = NULL};
    int64_t now_us = 0;
    struct error err = {0};

    must(policy_expectations_check(document, &err), &err);
    assert_true(policy_time_parse(bytes_of_text(NOW), &now_us));
    must(policy_expectation_ask(set, test, OP_INGEST, now_us, &answer, &err), &err);
    assert_int_equal(answer.holds, row->holds);
}

static const struct bad_row {
    const char *name, *test, *message;
} bad[] = {
    {"two targets", TEST("\"region\":\"azure/uaenorth\",\"address\":\"10.1.2.3\",\"expect\":\"allow\""), "exactly one"},
    {"no target", TEST("\"expect\":\"allow\""), "exactly one"},
    {"an unknown region", TEST("\"region\":\"azure/other\",\"expect\":\"allow\""), "no region azure/other"},
    {"an unknown network", TEST("\"network\":\"10.2.0.0/16\",\"expect\":\"allow\""), "no network 10.2.0.0/16"},
    {"no address", TEST("\"address\":\"10.2\",\"expect\":\"allow\""), "no IP address"},
    {"an unknown fact", TEST("\"target\":{\"geography\":\"AE\"},\"expect\":\"allow\""), "not known: geography"},
    {"an unknown member", TEST("\"region\":\"a/b\",\"expects\":\"allow\""), "not known: expects"},
    {"another outcome", TEST("\"region\":\"a/b\",\"expect\":\"maybe\""), "\"allow\" or \"deny\""},
    {"another class", TEST("\"label\":{\"class\":\"top\"},\"region\":\"a/b\",\"expect\":\"deny\""), "a class"},
};

static void bad_one_is_refused(void **state)
{
    const struct bad_row *row = *state;
    OWNED(policy_set) *set = samples();
    OWNED_JSON test = policy_json(row->test);
    OWNED_JSON document = json_pack("{s:[O]}", "tests", test);
    struct policy_expectation_answer OWNED_ANSWER answer = {.decision = NULL};
    struct error err = {0};

    const bool is_formed = policy_expectations_check(document, &err).ok;
    assert_false(is_formed && policy_expectation_ask(set, test, OP_INGEST, 0, &answer, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    if (strstr(err.message, row->message) == NULL) fail_msg("%s", err.message);
}

/* The client's address is looked up in the networks, as a request's is. */
static void addresses_are_looked_up(void **state)
{
    OWNED(policy_set) *set = samples();
    OWNED_JSON inside =
        policy_json("{\"name\":\"n\",\"ops\":[\"read\"],\"scope\":\"health/a/b\",\"label\":{\"lineage\":\"declared\"},"
                    "\"address\":\"10.1.2.3\",\"expect\":\"allow\",\"rule\":\"H-PERMIT\"}");
    OWNED_JSON outside = json_deep_copy(inside);
    struct policy_expectation_answer OWNED_ANSWER first = {.decision = NULL};
    struct policy_expectation_answer OWNED_ANSWER second = {.decision = NULL};
    int64_t now_us = 0;
    struct error err = {0};

    (void)state;
    assert_true(policy_time_parse(bytes_of_text(NOW), &now_us));
    must(policy_expectation_ask(set, inside, OP_READ, now_us, &first, &err), &err);
    assert_true(first.allows);
    (void)json_object_set_new(outside, "address", json_string("10.2.2.3"));
    must(policy_expectation_ask(set, outside, OP_READ, now_us, &second, &err), &err);
    assert_false(second.allows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(addresses_are_looked_up)};

    return RUN_TABLE(rows, expectation_is_judged) + RUN_TABLE(bad, bad_one_is_refused) +
           cmocka_run_group_tests_name("policy_expectation", tests, NULL, NULL);
}
