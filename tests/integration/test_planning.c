/* A plan on the real PostgreSQL, decider and log: runs that would stop, and failures of its way. Requests and content: tests/scenario/plans.py. */
#include "tests/integration/orders_fixture.h"

#include "planning/plan_make.h"

static const struct pg_table *const plan_tables[] = {&plan_table, NULL};
static struct pg *plan_pg;
static unsigned looks_left; /* until the job is stopped */

static bool go_on(void *context, enum plan_phase phase, uint64_t done, uint64_t total)
{
    (void)context;
    assert_true(phase <= PLAN_OF_RUNS && done <= total);
    return looks_left == UINT_MAX || (looks_left > 0 && looks_left-- > 0);
}

/* {"days", "set"}: the default set, with one more policy for acme/models/trained. */
static void write_input(const char *rule, struct buffer *input)
{
    struct buffer OWNED_BUFFER first = BUFFER(POLICY_SET_BYTES_MAX), payload = BUFFER(POLICY_SET_BYTES_MAX),
                               policy = BUFFER(4096);
    const struct policy_default_options options = {.epoch = 2, .region = "local/main", .now_ms = clock_wall_ms() - 60000};
    struct error err = {0};

    must(policy_default_set(&options, &first, &err), &err);
    must(buffer_format(&policy, &err,
                       "{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyPolicy\",\"closed\":false,\"metadata\":{\"id\":"
                       "\"more\",\"version\":1,\"scope\":[\"acme/models/trained\"],\"effective_from\":"
                       "\"2020-01-01T00:00:00Z\",\"review_by\":\"2099-01-01\"},\"rules\":[%s]}",
                       rule),
         &err);
    OWNED_JSON json = json_loads(buffer_text(&first), 0, NULL);
    assert_int_equal(json_array_append_new(json_object_get(json, "policies"), json_loads(buffer_text(&policy), 0, NULL)), 0);
    const struct policy_set_parts parts = {.epoch = 2,
                                           .policies = json_object_get(json, "policies"),
                                           .regions = json_object_get(json, "regions"),
                                           .groups = json_object_get(json, "groups")};
    must(policy_set_compose(&parts, &payload, &err), &err);
    must(buffer_format(input, &err, "{\"days\":1,\"set\":%s}", buffer_text(&payload)), &err);
}

static struct result make_whole(void *context, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(PLAN_BYTES_MAX);
    const struct buffer *input = context;
    const struct plan_source of = {
        .decider = place.decider, .pg = plan_pg, .input = buffer_bytes(input), .now_ms = clock_wall_ms(), .go_on = go_on};
    bool is_whole = false;

    if (pg_is_broken(plan_pg)) TRY(pg_reopen(plan_pg, err));
    TRY(plan_make(&of, &text, &is_whole, err));
    assert_true(is_whole && text.length > 0);
    return SUCCESS;
}

static json_t *plan_with(const char *rule)
{
    struct buffer OWNED_BUFFER input = BUFFER(PLAN_INPUT_MAX), text = BUFFER(PLAN_BYTES_MAX);
    bool is_whole = false;
    struct error err = {0};

    write_input(rule, &input);
    const struct plan_source of = {
        .decider = place.decider, .pg = plan_pg, .input = buffer_bytes(&input), .now_ms = clock_wall_ms(), .go_on = go_on};
    must(plan_make(&of, &text, &is_whole, &err), &err);
    return is_whole ? json_loads(buffer_text(&text), 0, NULL) : NULL;
}

#define NO_TRAINING "{\"id\":\"NO-TRAINING\",\"effect\":\"deny\",\"ops\":[\"train\"],\"target\":{\"geo_within\":[\"AE\"]}}"
#define NO_EXPORT   "{\"id\":\"NO-EXPORT\",\"effect\":\"deny\",\"ops\":[\"export\"],\"target\":{\"geo_within\":[\"AE\"]}}"

#define TWO_APPROVE "{\"id\":\"TWO\",\"effect\":\"oblige\",\"ops\":[\"train\"],\"oblige\":{\"approvals\":2}}"

static void expect_runs(const char *rule, json_int_t open, json_int_t stopping)
{
    OWNED_JSON plan = plan_with(rule);
    const json_t *runs = json_object_get(plan, "runs"), *row = json_array_get(json_object_get(runs, "rows"), 0);

    assert_int_equal(json_integer_value(json_object_get(runs, "open")), open);
    assert_int_equal(json_integer_value(json_object_get(runs, "stopping")), stopping);
    assert_int_equal(json_array_size(json_object_get(runs, "rows")), (size_t)stopping);
    if (stopping == 0) return;
    assert_string_equal(json_text_of(row, "rule"), "NO-TRAINING");
    assert_string_equal(json_text_of(row, "policy"), "more@1");
    assert_string_equal(json_text_of(row, "repository"), "acme/models/trained");
    assert_string_equal(json_text_of(row, "region"), "local/main");
}

static void expect_short_of_approvals(size_t count)
{
    OWNED_JSON plan = plan_with(TWO_APPROVE);
    const json_t *rows = json_object_get(json_object_get(plan, "runs"), "rows");

    assert_int_equal(json_array_size(rows), count);
    for (size_t i = 0; i < count; i++) assert_string_equal(json_text_of(json_array_get(rows, i), "rule"), "approvals");
}

static void runs_that_would_stop_are_named(void **state)
{
    (void)state;
    expect_runs(NO_TRAINING, 0, 0);
    const struct uuid waiting = request("\"AE\"", 1); /* nobody has approved it: its regions are not computed yet */
    expect_runs(NO_TRAINING, 1, 1);
    const struct uuid id = request("\"AE\"", 0);
    order_well();
    expect_state(&id, "ordered", "");
    expect_runs(NO_TRAINING, 2, 2);
    expect_runs(NO_EXPORT, 2, 0);
    expect_short_of_approvals(1); /* the run that waits for an approval may get two */
    approve(&waiting);
    expect_short_of_approvals(2);
}

static void a_plan_that_is_stopped_is_no_plan(void **state)
{
    (void)state;
    for (unsigned looks = 0; looks < 3; looks++) {
        looks_left = looks;
        assert_null(plan_with(NO_EXPORT));
    }
    looks_left = UINT_MAX;
}

#define STRIDE 7 /* each seventh call, from another one in each run: a plan takes 40 ms */

static void a_failure_is_said(void **state)
{
    struct buffer OWNED_BUFFER input = BUFFER(PLAN_INPUT_MAX);
    unsigned long nth = 1 + (unsigned long)clock_wall_ms() % STRIDE, failures = 0;

    (void)state;
    write_input(NO_TRAINING, &input);
    for (bool has_fired = true; has_fired; nth += STRIDE) {
        struct error err = {ERROR_NONE, ""};
        fault_arm(nth);
        const bool ok = make_whole(&input, &err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        if (ok == has_fired) fail_msg("failure %lu: %s", nth, ok ? "it is not said" : err.message);
        if (has_fired && err.message[0] == '\0') fail_msg("failure %lu: nothing is said", nth);
        failures += has_fired;
    }
    assert_failures(failures, 50);
}

static int open_all(void **state)
{
    struct error err = {0};

    looks_left = UINT_MAX;
    if (set_up(state) != 0) return 1;
    return pg_open(database_app(place.log.database), plan_tables, &plan_pg, &err).ok ? 0 : 1;
}

static int close_all(void **state)
{
    pg_free(plan_pg);
    return tear_down(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs_that_would_stop_are_named),
                                       cmocka_unit_test(a_plan_that_is_stopped_is_no_plan), cmocka_unit_test(a_failure_is_said)};

    return cmocka_run_group_tests(tests, open_all, close_all);
}
