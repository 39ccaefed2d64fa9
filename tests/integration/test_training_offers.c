/* Why a run waits: what runners lack that asked for work. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "tests/integration/nodes_fixture.h"

static void works(struct result result, const struct error *err)
{
    if (!result.ok) fail_msg("%s", err->message);
}

static void note(const struct run_offer *offer)
{
    struct error err = {0};

    works(run_offer_note(stack->pg, offer, &err), &err);
}

/* "2 asked, 1 fit, 1 memory": as a reader of the run is told; "" if the run is not ordered. */
static const char *said_of(const struct model *model)
{
    static char text[400];
    OWNED(permit) *permit = stack_permit(stack, ACTION_RUN_READ, &project);
    OWNED(pg_rows) *rows = NULL;
    struct error err = {0};
    size_t at = 0;

    works(run_read_offers(permit, stack->pg, ACTION_RUN_READ, &model->id, &rows, &err), &err);
    text[0] = '\0';
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        const char *what = pg_text(rows, i, RUN_OFFERS_WHAT);
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%lld %s", i == 0 ? "" : ", ",
                               (long long)pg_int8(rows, i, RUN_OFFERS_RUNNERS), what[0] == '\0' ? "asked" : what);
    }
    return text;
}

static void forget(void)
{
    execute("DELETE FROM run_offer");
    clear();
}

/* ---- what is lacking ---- */

/* Each row takes one thing from an offer that fits. */
static void less_memory(struct run_offer *offer)
{
    offer->memory_bytes = 1;
}
static void no_cpus(struct run_offer *offer)
{
    offer->cpus = 0;
}
static void weak_isolation(struct run_offer *offer)
{
    offer->isolation = 0;
}
static void low_assurance(struct run_offer *offer)
{
    offer->assurance = 0;
}
static void other_region(struct run_offer *offer)
{
    offer->region = "aws/frankfurt";
}
static void one_place_more(struct run_offer *offer)
{
    offer->jurisdictions[offer->jurisdiction_count++] = bytes_of_text("DE");
}
static void no_place(struct run_offer *offer)
{
    offer->jurisdiction_count = 0;
}
static void no_devices(struct run_offer *offer)
{
    offer->device_count = 0;
}
static void other_devices(struct run_offer *offer)
{
    offer->device_types[0] = bytes_of_text("T4");
}
static void no_devices_by_document(struct run_offer *offer)
{
    offer->devices_most = 0;
}
static void small_devices(struct run_offer *offer)
{
    offer->device_memory[0] = 1;
}
static void no_nodes(struct run_offer *offer)
{
    offer->nodes = 0;
}
static void ends_soon(struct run_offer *offer)
{
    offer->enrolled_until_ms = clock_wall_ms() + 60000;
}
static void nothing(struct run_offer *offer)
{
    (void)offer;
}

static const struct lack_case {
    const char *name;
    void (*take)(struct run_offer *offer);
    const char *said;
} lack_cases[] = {
    {"an offer that fits", nothing, "1 asked, 1 fits"},
    {"too little memory", less_memory, "1 asked, 0 fits, 1 memory"},
    {"no free processors", no_cpus, "1 asked, 0 fits, 1 cpus"},
    {"a weaker isolation", weak_isolation, "1 asked, 0 fits, 1 isolation"},
    {"a lower assurance", low_assurance, "1 asked, 0 fits, 1 assurance"},
    {"another region", other_region, "1 asked, 0 fits, 1 region"},
    {"a jurisdiction that the order does not name", one_place_more, "1 asked, 0 fits, 1 jurisdiction"},
    {"no jurisdiction", no_place, "1 asked, 0 fits, 1 jurisdiction"},
    {"no device that is free", no_devices, "1 asked, 0 fits, 1 devices"},
    {"another type of device", other_devices, "1 asked, 0 fits, 1 devices"},
    {"a document without devices", no_devices_by_document, "1 asked, 0 fits, 1 devices"},
    {"devices with too little memory", small_devices, "1 asked, 0 fits, 1 devices"},
    {"no runs of several nodes", no_nodes, "1 asked, 0 fits, 1 nodes"},
    {"a document that ends too soon", ends_soon, "1 asked, 0 fits, 1 enrolment"},
};

/* The search for a run and this answer agree: what lacks nothing gets the run, and what lacks something gets nothing. */
static void run_lack_case(void **state)
{
    const struct lack_case *row = *state;
    struct run_offer offer = offer_of(0);
    struct model large = ordered(2);
    struct run_claim claim;

    execute(
        "UPDATE run SET devices = 1, device_type = 'H200', device_memory = 1000, isolation = 1, assurance = 1 WHERE ended_at IS NULL");
    row->take(&offer);
    note(&offer);
    assert_string_equal(said_of(&large), row->said);
    assert_int_equal(asks_as(&offer, &claim), row->take == nothing ? KEPT : NOTHING);
    forget();
}

/* ---- who is counted ---- */

static void the_most_frequent_reason_comes_first(void **state)
{
    struct model single = ordered(1);
    struct run_offer first = offer_of(0), second = offer_of(1), third = offer_of(1);

    (void)state;
    first.memory_bytes = 1;
    second.memory_bytes = 1;
    second.region = "aws/frankfurt";
    third.key = "CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC";
    note(&first), note(&second), note(&third);
    assert_string_equal(said_of(&single), "3 asked, 1 fits, 2 memory, 1 region");
    note(&first);
    assert_string_equal(ask("SELECT count(*) FROM run_offer"), "3"); /* one row for a runner, however often it asks */
    forget();
}

static void runners_of_other_tenants_are_not_counted(void **state)
{
    const struct uuid other = uuid_random();
    struct model single = ordered(1);
    struct run_offer offer = offer_of(0), pool = offer_of(1);

    (void)state;
    offer.organisation = &other;
    pool.pool = "gpu";
    note(&offer), note(&pool);
    assert_string_equal(said_of(&single), "0 asked, 0 fits");
    offer.organisation = &project.organisation;
    offer.project = &other;
    note(&offer);
    assert_string_equal(said_of(&single), "0 asked, 0 fits");
    offer.project = &project.project;
    note(&offer);
    assert_string_equal(said_of(&single), "1 asked, 1 fits");
    forget();
}

/* The commonest reason: the only runner executes another run, and so has not asked. */
static void busy_runners_are_counted(void **state)
{
    struct model running = ordered(1), waiting = ordered(1);
    char sql[600], id[UUID_TEXT_SIZE];
    const struct run_offer offer = offer_of(0);

    (void)state;
    uuid_format(&running.id, id);
    (void)snprintf(
        sql, sizeof sql,
        "INSERT INTO run_attempt (run_id, attempt, node, runner, key, session, deadline, ends_at) VALUES"
        " ('%s', 1, 0, '%s', '%s', decode(repeat('ab', 16), 'hex'), now() + interval '1 hour', now() + interval '1 hour')",
        id, id, offer.key);
    execute(sql);
    assert_string_equal(said_of(&waiting), "0 asked, 0 fits, 1 busy");
    note(&offer); /* it asks for a second run */
    assert_string_equal(said_of(&waiting), "1 asked, 1 fits");
    execute("UPDATE run_offer SET asked_at = now() - interval '121 seconds'");
    assert_string_equal(said_of(&waiting), "0 asked, 0 fits, 1 busy");
    execute("UPDATE run_attempt SET ended_at = now(), outcome = 'lost' WHERE ended_at IS NULL");
    assert_string_equal(said_of(&waiting), "0 asked, 0 fits");
    forget();
}

static void a_runner_that_asks_no_more_is_not_counted(void **state)
{
    struct model single = ordered(1);
    const struct run_offer offer = offer_of(0);
    struct error err = {0};

    (void)state;
    note(&offer);
    execute("UPDATE run_offer SET asked_at = now() - interval '121 seconds'");
    assert_string_equal(said_of(&single), "0 asked, 0 fits");
    note(&offer);
    assert_string_equal(said_of(&single), "1 asked, 1 fits");
    works(run_offer_forget(stack->pg, &err), &err);
    assert_string_equal(ask("SELECT count(*) FROM run_offer"), "1");
    execute("UPDATE run_offer SET asked_at = now() - interval '61 minutes'");
    works(run_offer_forget(stack->pg, &err), &err);
    assert_string_equal(ask("SELECT count(*) FROM run_offer"), "0");
    forget();
}

static void an_offer_that_has_not_changed_is_not_written_again(void **state)
{
    struct run_offer offer = offer_of(0);

    (void)state;
    note(&offer);
    execute("UPDATE run_offer SET asked_at = now() - interval '59 seconds'");
    note(&offer);
    assert_string_equal(ask("SELECT count(*) FROM run_offer WHERE asked_at < now() - interval '58 seconds'"), "1");
    offer.cpus--;
    note(&offer);
    assert_string_equal(ask("SELECT count(*) FROM run_offer WHERE asked_at < now() - interval '58 seconds'"), "0");
    execute("UPDATE run_offer SET asked_at = now() - interval '61 seconds'");
    note(&offer);
    assert_string_equal(ask("SELECT count(*) FROM run_offer WHERE asked_at < now() - interval '58 seconds'"), "0");
    forget();
}

/* It says its regions, and nothing else of it is compared. */
static void a_scheduler_counts_as_one(void **state)
{
    struct model large = ordered(2);
    struct run_queue_query query = {
        .pool = "default", .region_count = 2, .regions = {{(const uint8_t *)"aws/x", 5}, {(const uint8_t *)"local/auh", 9}}};
    struct error err = {0};

    (void)state;
    execute("UPDATE run SET devices = 8, device_type = 'H200', isolation = 2, assurance = 3 WHERE ended_at IS NULL");
    works(run_offer_note_queue(stack->pg, keys[0], &query, &err), &err);
    assert_string_equal(said_of(&large), "1 asked, 1 fits");
    query.region_count = 1;
    works(run_offer_note_queue(stack->pg, keys[0], &query, &err), &err);
    assert_string_equal(said_of(&large), "1 asked, 0 fits, 1 region");
    forget();
}

static void a_runner_that_returned_it_rests(void **state)
{
    struct model single = ordered(1);
    const struct run_offer offer = offer_of(0);
    struct run_claim claim;

    (void)state;
    note(&offer);
    assert_int_equal(asks(0, &claim), CLAIMED);
    assert_int_equal(lease(&claim, 0), ERROR_NONE);
    assert_string_equal(said_of(&single), ""); /* it does not wait */
    execute("UPDATE run_attempt SET ended_at = now(), outcome = 'returned' WHERE ended_at IS NULL");
    execute("UPDATE run SET state = 'ordered' WHERE ended_at IS NULL");
    assert_string_equal(said_of(&single), "1 asked, 0 fits, 1 rest");
    forget();
}

int main(void)
{
    struct CMUnitTest tests[COUNT(lack_cases) + 7];
    size_t count = 0;

    for (size_t i = 0; i < COUNT(lack_cases); i++)
        tests[count++] = (struct CMUnitTest){
            .name = lack_cases[i].name, .test_func = run_lack_case, .initial_state = (void *)(uintptr_t)&lack_cases[i]};
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(the_most_frequent_reason_comes_first);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(runners_of_other_tenants_are_not_counted);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(busy_runners_are_counted);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(a_runner_that_asks_no_more_is_not_counted);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(an_offer_that_has_not_changed_is_not_written_again);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(a_scheduler_counts_as_one);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(a_runner_that_returned_it_rests);
    return cmocka_run_group_tests_name("why a run waits", tests, set_up, tear_down);
}
