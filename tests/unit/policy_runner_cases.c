/* Where a run is: in the region of its runner, certainly so only if the runner is attested and calls from where its record says. */
#include "tests/support/unit.h"

#include <arpa/inet.h>

#include "base/json.h"
#include "policy/set.h"
#include "tests/support/policy.h"
#include "tests/unit/policy_set_parts.h"

static const struct runner_row {
    const char *name, *region, *address;
    enum policy_runner runner;
    const char *place; /* what counts */
    int64_t assurance; /* 0: it is not known */
} runner_rows[] = {
    {"enrolled in a region", "local/dxb", "192.0.2.1", POLICY_RUNNER_ENROLLED, "local/dxb", 2},
    {"enrolled, from a network that says less", "local/dxb", "10.1.2.3", POLICY_RUNNER_ENROLLED, "local/dxb", 2},
    {"attested", "local/dxb", "192.0.2.1", POLICY_RUNNER_ATTESTED, "attested:local/dxb", 4},
    {"attested, in a network of that country", "local/dxb", "10.1.2.3", POLICY_RUNNER_ATTESTED, "attested:local/dxb", 4},
    {"attested, in a network of a part of it", "local/auh", "10.4.2.3", POLICY_RUNNER_ATTESTED, "attested:local/auh", 4},
    {"attested, in a network without a place", "local/dxb", "10.5.2.3", POLICY_RUNNER_ATTESTED, "attested:local/dxb", 4},
    {"attested, in a network of another country", "local/dxb", "10.2.0.1", POLICY_RUNNER_ATTESTED, "10.2.0.0/16", 1},
    {"attested, in a certain network of another country", "local/dxb", "10.3.0.1", POLICY_RUNNER_ATTESTED, "local/dxb", 2},
    {"attested for a region of which no assurance is stated", "local/auh", "192.0.2.1", POLICY_RUNNER_ATTESTED,
     "attested:local/auh", 4},
    {"attested, elsewhere", "local/dxb", "192.0.2.1", POLICY_RUNNER_ELSEWHERE, "local/dxb", 2},
    {"attested, elsewhere in a network that says less", "local/dxb", "10.1.2.3", POLICY_RUNNER_ELSEWHERE, "10.1.0.0/16", 1},
    {"attested for a region that the set lacks", "local/ruh", "10.1.2.3", POLICY_RUNNER_ATTESTED, NULL, 0},
    {"named as attested by its region", "attested:local/dxb", "10.1.2.3", POLICY_RUNNER_ENROLLED, NULL, 0},
};

static void an_attested_runner_is_where_it_calls_from(void **state)
{
    const struct runner_row *row = *state;
    OWNED_JSON networks = policy_json("[{\"cidr\":\"10.1.0.0/16\",\"facts\":{\"assurance\":1,\"geo\":\"AE\"}},"
                                      "{\"cidr\":\"10.2.0.0/16\",\"facts\":{\"assurance\":1,\"geo\":\"FR\"}},"
                                      "{\"cidr\":\"10.3.0.0/16\",\"facts\":{\"assurance\":3,\"geo\":\"DE\"}},"
                                      "{\"cidr\":\"10.4.0.0/16\",\"facts\":{\"assurance\":1,\"geo\":\"AE/AZ\"}},"
                                      "{\"cidr\":\"10.5.0.0/16\",\"facts\":{\"assurance\":1}}]");
    OWNED_JSON regions = policy_json("{\"local/auh\":{\"geo\":\"AE\"},\"local/dxb\":{\"assurance\":2,\"geo\":\"AE/DU\"}}");
    const struct policy_set_parts parts = {.epoch = 3, .networks = networks, .regions = regions};
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct sockaddr_in address = {.sin_family = AF_INET};
    OWNED(policy_set) *set = NULL;
    const char *name = NULL;
    struct error err = {0};

    assert_true(policy_set_compose(&parts, &payload, &err).ok);
    if (!policy_set_compile(buffer_bytes(&payload), &set, &err).ok) fail_msg("%s", err.message);
    assert_int_equal(inet_pton(AF_INET, row->address, &address.sin_addr), 1);
    const struct policy_client client = {.address = (const struct sockaddr *)&address, .runner = row->runner};
    const struct policy_target *found = policy_set_runner(set, row->region, &client, 0, &name);
    assert_int_equal(found != NULL, row->place != NULL);
    if (found == NULL) return;
    assert_string_equal(name, row->place);
    assert_ptr_equal(policy_set_runner_named(set, name, 0), found);
    OWNED_JSON facts = policy_json(policy_target_canonical(found));
    assert_int_equal(json_integer_value(json_object_get(facts, "assurance")), row->assurance);
}

int policy_runner_cases(void)
{
    return RUN_TABLE(runner_rows, an_attested_runner_is_where_it_calls_from);
}
